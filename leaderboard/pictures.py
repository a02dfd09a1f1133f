"""Accuracy by length: one picture a task, and one of all tasks. matplotlib is imported when something is drawn."""

import io
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

import tasks

from .grid import Column, Grid
from .markdown import printable, share, times
from .statistics import out_of_distribution
from .tables import VISIBLE_CHANCE

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

OVERVIEW = "accuracy.png"
DPI = 150  # nearly twice the pixels of a README's column, for dense screens

# Okabe & Ito 2008, colour-blind safe; their yellow is left out, too pale on white. The second round is dashed.
COLOURS = ("#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("-", (0, (4, 1.5)))
STYLED = 12
"""More lines than this cannot be told apart, nor named in a legend: only the best stand out, the others are grey."""
GREY = "#B0B0B0"
SHADE = "#F0F0F0"
LEGEND: dict[str, Any] = {"alignment": "left", "frameon": False, "fontsize": 8, "title_fontsize": 8, "labelspacing": 0.4}


@dataclass(frozen=True)
class Style:
    """How one encoding is drawn in all pictures of a board."""

    colour: str
    marker: str
    dashes: str | tuple[int, tuple[float, ...]]


def styles(grid: Grid) -> dict[str, Style]:
    """Encoding → style, the same on every task: in the grid's order, the grey ones first so that they lie at the bottom."""
    chosen = set(sorted(grid.encodings, key=lambda name: -strength(grid, name))[:STYLED])
    found = {name: Style(GREY, "", "-") for name in grid.encodings if name not in chosen}
    for i, name in enumerate(name for name in grid.encodings if name in chosen):
        turn, place = divmod(i, len(COLOURS))
        found[name] = Style(COLOURS[place], MARKERS[(place + turn) % len(MARKERS)], DASHES[turn])
    return found


def strength(grid: Grid, encoding: str) -> float:
    """Mean OOD exact match over the tasks that there are: chooses the colours when there are too few, and nothing else."""
    runs = [(c, grid.exact(c.task, encoding)) for c in grid.columns]
    return float(np.mean([out_of_distribution(c.at, e, c.train_length).mean() for c, e in runs if len(e)] or [-1]))


def file_name(task: str) -> str:
    """Of a task's picture."""
    return f"accuracy-{quote(task, safe='')}.png"


def draw(grid: Grid) -> dict[str, bytes]:
    """File name → PNG: the overview and every task with at least one run; nothing for a grid without runs."""
    import matplotlib

    if not grid.runs:
        return {}
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a reader's own settings must not change the bytes
        matplotlib.rcParams.update(
            {
                "font.size": 9,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "axes.edgecolor": "#555555",
                "text.parse_math": False,  # a name may hold a dollar sign
            }
        )
        pictures = {OVERVIEW: overview(grid)}
        for column in grid.columns:
            if any(task == column.task for task, _ in grid.runs):
                pictures[file_name(column.task)] = one_task(grid, column)
    return pictures


def one_task(grid: Grid, column: Column) -> bytes:
    """The picture of one task; its legend says the mean past L and is sorted by it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 3.9), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    lines = curves(axes, grid, column)
    means = {name: out_of_distribution(column.at, grid.exact(column.task, name), column.train_length).mean() for name in lines}
    order = sorted(lines, key=lambda name: -means[name])  # stable: ties stay in the grid's order
    entries = {name: f"{share(means[name])}  {label(name)}" for name in order}
    several = any(len(runs) > 1 for (task, _), runs in grid.runs.items() if task == column.task)
    figure.legend(*keys([column], lines, entries, several), loc="outside right upper", title="mean past L", **LEGEND)
    return png(figure)


def overview(grid: Grid) -> bytes:
    """All tasks in small multiples, with one legend in the last place."""
    from matplotlib.figure import Figure

    across = min(3, len(grid.columns) + 1)
    down = -(-(len(grid.columns) + 1) // across)
    figure = Figure(figsize=(2.75 * across, 2.5 * down), dpi=DPI, layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    lines: dict[str, Line2D] = {}
    for i, column in enumerate(grid.columns):
        lines |= curves(panels[i], grid, column, small=True)
        if i % across:
            panels[i].set_ylabel("")
    for panel in panels[len(grid.columns) :]:
        panel.axis("off")
    entries = {name: label(name) for name in grid.encodings if name in lines}
    several = any(len(runs) > 1 for runs in grid.runs.values())
    figure.supxlabel("test length", fontsize=9)
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, 1.12)}
    shown = panels[len(grid.columns)].legend(*keys(grid.columns, lines, entries, several), **place, **LEGEND)
    shown.set_in_layout(False)  # a long legend must not squeeze the panels
    return png(figure)


def curves(axes: "Axes", grid: Grid, column: Column, small: bool = False) -> "dict[str, Line2D]":
    """Draw one task: mean over seeds as a line, single seeds faintly.

    Returns:
        Encoding → its line, for those that have runs.
    """
    drawn: dict[str, Line2D] = {}
    known = styles(grid)
    grey = sum(style.colour == GREY for style in known.values())
    for place, (encoding, style) in enumerate(known.items(), -grey):
        exact = grid.exact(column.task, encoding)
        if not len(exact):
            continue
        # Later lines lie on top and are smaller: where curves coincide, those below still show around them.
        size = (0.6 if small else 1) * (1 - 0.55 * place / max(1, len(known) - grey - 1) if place >= 0 else 0.3)
        if len(exact) > 1:
            axes.plot(column.at, exact.T, color=style.colour, linewidth=0.6, alpha=0.2 if small else 0.35, zorder=2)
        (drawn[encoding],) = axes.plot(
            column.at,
            exact.mean(0),
            color=style.colour,
            linestyle=style.dashes,
            linewidth=2.6 * size,
            marker=style.marker,
            markersize=7.5 * size,
            markeredgewidth=0,
            zorder=3 + place / len(known),
            clip_on=False,
        )
    frame(axes, column, small)
    return drawn


def frame(axes: "Axes", column: Column, small: bool) -> None:
    """Title, axes, the trained side shaded up to a line at L, and chance where it is above the axis."""
    known = tasks.catalogue().get(column.task)
    train_length, lengths = column.train_length, column.lengths
    axes.set_title(printable(f"{known.title if known else column.task} ({column.variant})", 40), loc="left", fontsize=9)
    axes.set_xscale("log", base=2)  # test lengths are a geometric grid of L
    axes.set_xlim(lengths[0] / 1.08, lengths[-1] * 1.08)
    axes.set_xticks(lengths, labels=tick_labels(column, small))
    axes.minorticks_off()
    axes.set_ylim(-0.02, 1.02)
    axes.set_yticks(np.linspace(0, 1, 5))
    axes.set_ylabel("exact match")
    if not small:
        axes.set_xlabel("test length" + (f" ({known.length_is})" if known else ""))
    axes.grid(axis="y", color="#E5E5E5", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.axvspan(lengths[0] / 1.08, train_length, color=SHADE, zorder=0, linewidth=0)
    axes.axvline(train_length, color="#777777", linewidth=0.9, zorder=1)
    if max(column.chance) > VISIBLE_CHANCE:
        axes.plot(lengths, column.chance, color="#777777", linewidth=1, linestyle=":", zorder=1.5)


def tick_labels(column: Column, small: bool) -> list[str]:
    """Tested lengths, with their multiple of L in the large picture; blank where the label would run into its neighbour."""
    train_length, lengths = column.train_length, column.lengths
    width = math.log(lengths[-1] / lengths[0]) / (9 if small else 22)  # of a label, on the axis
    kept = [train_length]
    for length in sorted(lengths, key=lambda n: (n != lengths[-1], n != lengths[0], n)):
        if all(abs(math.log(length / other)) > width for other in kept):
            kept.append(length)
    multiples = {n: n / train_length for n in lengths}
    below = {n: f"{times(m)} L" if m != 1 else "L" for n, m in multiples.items() if math.isclose(m, round(m, 1))}
    shown = {n: f"{n}\n{below.get(n, '')}" if n == train_length or not small else str(n) for n in kept}
    return [shown.get(n, "") for n in lengths]


def keys(
    columns: Sequence[Column], lines: "Mapping[str, Line2D]", entries: Mapping[str, str], seeds: bool
) -> "tuple[list[Artist], list[str]]":
    """Legend handles and labels: the styled encodings, the others as one, then what else is drawn.

    Arguments:
        columns: the tasks shown.
        entries: encoding → label, in order.
        seeds: whether single seeds are drawn.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    styled = [name for name in entries if lines[name].get_color() != GREY]
    handles: list[Artist] = [lines[name] for name in styled]
    labels = [entries[name] for name in styled]
    if others := len(entries) - len(styled):
        handles.append(Line2D([], [], color=GREY))
        labels.append(f"{others} other{'s' * (others != 1)}")
    if seeds:
        handles.append(Line2D([], [], color="#555555", linewidth=0.6, alpha=0.5))
        labels.append("single seeds")
    if any(max(column.chance) > VISIBLE_CHANCE for column in columns):
        handles.append(Line2D([], [], color="#777777", linewidth=1, linestyle=":"))
        labels.append("chance")
    handles.append(Patch(color=SHADE))
    labels.append("trained, l ≤ L")
    return handles, labels


def png(figure: "Figure") -> bytes:
    """PNG bytes that hang on the figure alone: no date, no version of the library."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a name in another script shows as boxes
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def label(name: str) -> str:
    return printable(name, 28)
