"""The figures of the board: each takes a ``Board`` and returns a matplotlib figure."""

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import tasks
from leaderboard.stats.rows import Board
from leaderboard.stats.scores import curve, limit_text

from .style import FAINT, INK, SMALL, colour, end_labels, heading, headline, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Heads = Sequence[Sequence[float]]
"""Attention by distance for each head."""
MOST_LINES = 5
"""Coloured lines in one panel; all others are grey."""
CELLS = ("#d9e6f5", "#b5cfec", "#7fabdd", "#3f7fc4", "#1f5a9e")
"""Fills of length limits, from 1 L to 8 L."""
DARK_TEXT, LIGHT_TEXT = "#1f2328", "#ffffff"


def overview(board: Board, rows: pd.DataFrame, references: pd.DataFrame, title: str) -> "Figure":
    """A row per encoding: gloss, score with interval and band over learning rates, length limits by task, step time, text."""
    shown = pd.concat([rows, references])
    numbers = {"Time, ×": shown["step_time"], "Text, bits": shown["text"]}
    numbers = {title: values for title, values in numbers.items() if values.notna().any()}
    count, wide = len(shown), len(board.tasks)
    figure, (names, scores, limits, costs) = new_figure(
        0.9 + 0.36 * count, ncols=4, width_ratios=[2.6, 2.0, 0.85 * wide, 0.95 * max(1, len(numbers))]
    )
    places = np.arange(count)[::-1] - np.repeat([0, 0.7], [len(rows), len(references)])
    for axes in (names, scores, limits, costs):
        axes.set_ylim(places[-1] - 0.6, count - 0.4)
        axes.set_yticks([])
        axes.grid(False)
        axes.spines[["left", "bottom"]].set_visible(False)
        if len(references) and len(rows):
            axes.axhline(places[len(rows)] + 0.85, color=FAINT, lw=0.8)
    names.set_xticks([])
    costs.set_xlim(-0.5, max(0.5, len(numbers) - 0.5))
    costs.set_xticks(range(len(numbers)), [*numbers])
    for axes in (limits, costs):
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=1)
    for y, row in zip(places, shown.itertuples(), strict=True):
        ink = colour(row.encoding)
        names.text(0, y + 0.2, row.encoding, weight="bold", va="center", color=ink)
        names.text(0, y - 0.24, row.gloss, va="center", fontsize=SMALL, color=INK)
        scores.plot([row.rate_low, row.rate_high], [y, y], color=ink, alpha=0.3, lw=8, solid_capstyle="butt")
        scores.plot([row.low, row.high], [y, y], color=ink, lw=2)
        scores.plot(row.score, y, "o", color=ink, ms=6)
        for x, values in enumerate(numbers.values()):
            value = values[row.Index]
            costs.text(x, y, f"{value:.2f}" if np.isfinite(value) else "", ha="center", va="center", color=INK)
    scores.grid(True, axis="x")
    heading(scores, "Score beyond L")
    heading(costs, "Lower is better" if numbers else "")
    length_cells(limits, board.tasks, shown, places)
    headline(figure, title)
    return figure


def length_cells(axes: "Axes", names: Sequence[str], shown: pd.DataFrame, places: np.ndarray) -> None:
    """Length limits as cells, darker the longer."""
    axes.set_xlim(-0.5, len(names) - 0.5)
    heading(axes, "Half right up to … × L")
    axes.set_xticks(range(len(names)), [tasks.title(task).removeprefix("Key ").capitalize() for task in names])
    for x, task in enumerate(names):
        depths = np.clip(np.log2(shown[f"limit.{task}"]).fillna(0) / 3 * len(CELLS), 0, len(CELLS) - 1).astype(int)
        axes.barh(places, 0.94, 0.76, x - 0.47, color=[CELLS[depth] for depth in depths], lw=0)
        texts = map(limit_text, shown[f"limit.{task}"], shown[f"limit_mark.{task}"])
        for y, depth, text in zip(places, depths, texts, strict=True):
            ink = LIGHT_TEXT if depth > 2 else DARK_TEXT
            axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=SMALL)


def curves(board: Board, names: Sequence[str], title: str, only: Sequence[str] = (), alone: Heads | None = None) -> "Figure":
    """Chance-corrected exact match by relative length, a panel per task: ``MOST_LINES`` coloured encodings, the others grey.

    Arguments:
        only: these tasks; by default all.
        alone: attention of the first encoding, in a panel of its own if it is known; the others are not drawn then.
    """
    chosen, others = [task for task in board.tasks if not only or task in only], alone is None
    panels = len(chosen) + bool(alone)
    columns = min(3, panels)
    rows = -(-panels // columns)
    figure, axes = new_figure(0.5 + (3.9 if panels == 1 else 2.2 * rows), nrows=rows, ncols=columns)
    if alone:
        draw_attention(axes[0], alone, colour(names[0]))
    for panel, task in zip(axes[bool(alone) :], chosen, strict=False):
        draw_curves(panel, board, task, names[:MOST_LINES], others)
    for panel in axes[panels:]:
        panel.set_axis_off()
    if panels < len(axes):
        lines = ["dotted: the training length L", "shaded: lowest to highest seed", *["grey: all other encodings"] * others]
        where: Any = {"va": "center", "transform": axes[-1].transAxes}
        axes[-1].text(0.05, 0.6, "\n".join(lines), fontsize=SMALL, linespacing=1.6, color=INK, **where)
    headline(figure, title)
    return figure


def draw_attention(axes: "Axes", attention: Heads, ink: str) -> None:
    """Attention by distance before training, a line for each head."""
    for head, style in zip(attention, cycle(("-", "--", ":", "-.")), strict=False):
        axes.plot(range(len(head)), head, color=ink, lw=1.5, ls=style)
    axes.set_yscale("log")
    axes.set_ylim(1e-3, 1.3)
    axes.set_yticks([1e-3, 1e-2, 1e-1, 1], ["0.001", "0.01", "0.1", "1"])
    axes.minorticks_off()
    axes.set_xlabel("tokens back; a line a head")
    heading(axes, "Attention before training")


def draw_curves(axes: "Axes", board: Board, task: str, highlighted: Sequence[str], others: bool = True) -> None:
    labels, grey = [], []
    own = board.runs[board.runs["task"] == task]
    axes.set_ylim(-0.05, 1.05)
    for encoding, runs in own.groupby("encoding", observed=True):
        at, values = curve(runs)
        mean = values.mean(0)
        if encoding in highlighted:
            ink = colour(str(encoding))
            axes.plot(at, mean, color=ink, lw=2, zorder=3)
            if len(values) > 1:
                axes.fill_between(at, values.min(0), values.max(0), color=ink, alpha=0.12, lw=0)
            labels.append((float(mean[-1]), str(encoding)))
        else:
            grey += [*zip(at, mean, strict=True), (np.nan, np.nan)]
    if others and grey:
        axes.plot(*np.array(grey).T, color=FAINT, lw=0.8, zorder=1)
    axes.axvline(1, color=INK, lw=0.8, ls=":")
    heading(axes, tasks.title(task))
    if len(own):
        first, last = own["length"].iloc[0][[0, -1]] / own["train_length"].iloc[0]
        length_axis(axes, first, last)
        end_labels(axes, labels, last)


def length_axis(axes: "Axes", first: float, last: float) -> None:
    """Relative lengths on a logarithmic axis, with room for names behind the last one."""
    axes.set_xscale("log", base=2)
    ticks = [tick for tick in ((1, 4, 16, 64) if last > 8 else (0.5, 1, 2, 4, 8)) if first <= tick <= last * 1.01]
    axes.set_xticks(ticks, ["L" if tick == 1 else f"{tick:g} L" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(first * 0.95, last * (last / first) ** 0.7)


def one_encoding(board: Board, encoding: str, attention: Heads | None = None) -> "Figure":
    """What one encoding attends to before training, if that is known, and its curves next to the best encoding and to NoPE."""
    names = list(dict.fromkeys([encoding, board.rows.iloc[0]["encoding"], "nope"]))
    row = board.rows.set_index("encoding").loc[encoding]
    reached = sorted((row[f"limit.{task}"], task) for task in board.tasks if np.isfinite(row[f"limit.{task}"]))
    ends = [reached[-1], *reached[: len(reached) > 1]] if reached else []
    told = [f"to {limit_text(at, row[f'limit_mark.{task}'])} L on {tasks.title(task).lower()}" for at, task in ends]
    return curves(board, names, f"{encoding}: half right {', but '.join(told) or 'nowhere'}", alone=attention or [])


def on_text(board: Board, text: pd.DataFrame, highlighted: Sequence[str], title: str) -> "Figure":
    """Rank by score on synthetic tasks, and rank by the rise of bits on real text, of encodings that have both.

    Arguments:
        text: see ``leaderboard.stats.transfer.measured``.
    """
    figure, (axes,) = new_figure(4.4)
    both, labels = text.join(board.rows.set_index("encoding")["score"], how="inner"), []
    places = pd.DataFrame({"score": both["score"].rank(), "rise": (-both["rise"]).rank()})  # from the worst
    axes.set_ylim(0, len(places) + 1)
    for name, row in places.iterrows():
        strong = name in highlighted
        axes.plot([0, 1], row, color=colour(str(name)) if strong else FAINT, lw=2 if strong else 0.8, marker="o", ms=5)
        labels += [(row["rise"], str(name))] if strong else []
    axes.set_xlim(-0.05, 1.4)
    axes.set_yticks([1, len(places)], ["last", "first"])
    axes.set_xticks([0, 1], [f"score of suite {board.suite}", "rise of bits on real text"])
    end_labels(axes, labels, 1)
    headline(figure, title)
    return figure
