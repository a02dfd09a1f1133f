"""Panels of exact match by test length: a few encodings in colour with their names, all others grey."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

import tasks
from leaderboard.data.grid import Column, Grid
from leaderboard.format import VISIBLE_CHANCE, printable, times
from leaderboard.stats.summary import summarise_cell

from .canvas import MARGIN, WIDTH, join_lines, new_figure, plot_dots
from .curve_labels import CurveLabel, Dashes, name_curves
from .text_layout import SMALL, text_width
from .theme import DARK, Theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = len(DARK.colours)
DASHES: tuple[Dashes, ...] = ("-", (0, (2.5, 1.1)), (0, (1, 1.2)))
"""Line styles of the first, second and third round of colours."""
APART = "†"
"""Follows the names of encodings that are ranked apart."""
SCORE_NOTE = "number: score past L, which counts single tokens, too"
"""Why a curve at 0 may have a number above it."""
LEFT = 0.34
"""Inches left of the first column, for the tick labels."""
HEAD, FOOT = 0.2, 0.26
"""Inches above a panel, for its title, and below it, for its tick labels."""


@dataclass(frozen=True)
class Style:
    """Colour and dashes of a highlighted encoding."""

    place: int
    """Index into the colours of a theme."""
    dashes: Dashes = "-"

    def colour(self, theme: Theme) -> str:
        return theme.colours[self.place]


def styles(names: Iterable[str]) -> dict[str, Style]:
    """Encoding → style; all different for up to 21 encodings."""
    return {name: Style(i % COLOURS, DASHES[i // COLOURS % len(DASHES)]) for i, name in enumerate(names)}


@dataclass(frozen=True)
class Panel:
    """One task and the encodings highlighted on it."""

    title: str
    column: Column
    members: Mapping[str, Style]
    """Encodings in colour, the first on top. Those without runs on this task are skipped."""
    best: str | None = None
    """The encoding whose name is bold."""
    longest_seen: int = 0
    """Longest length that a member saw in training, including a stage after it."""


def draw_panels(
    grid: Grid,
    panels: Sequence[Panel],
    theme: Theme,
    title: str,
    *,
    height: float,
    names: float,
    named: bool = True,
    across: int = 3,
    others: Sequence[str] = (),
    apart: frozenset[str] = frozenset(),
    headings: Sequence[str] = (),
    subtitle: str = "",
    notes: Sequence[str] = (),
) -> "Figure":
    """A figure of panels, row by row.

    Arguments:
        height: inches of a panel's data area.
        names: inches to the right of each panel, for the names of its members.
        named: whether to draw the names.
        across: largest number of columns.
        others: encodings drawn in grey, below the members.
        apart: encodings whose names are marked with ``APART``.
        headings: of the columns.
    """
    across = min(across, len(panels))
    down, head = -(-len(panels) // across), HEAD + 0.26 * bool(headings)
    figure, bottom, top = new_figure(title, head + down * (height + HEAD + FOOT) - HEAD, theme, subtitle=subtitle, notes=notes)
    total = figure.get_figheight()
    step = (WIDTH - LEFT - MARGIN / 2) / across
    spec = figure.add_gridspec(down, across, wspace=names / (step - names), hspace=(HEAD + FOOT) / height)
    right = (LEFT + across * step - names) / WIDTH
    spec.update(left=LEFT / WIDTH, right=right, bottom=bottom + FOOT / total, top=top - head / total)
    for i, panel in enumerate(panels):
        ax = figure.add_subplot(spec[i])
        draw_panel(ax, grid, panel, theme, others)
        ax.tick_params(labelleft=i % across == 0)
        if named:
            name_curves(ax, curve_labels(grid, panel, theme, apart), names)
    for i, text in enumerate(headings):
        figure.text((LEFT + i * step) / WIDTH, top - 0.02 / total, text, va="top", fontsize=8.5, fontweight="bold")
    return figure


def draw_panel(ax: "Axes", grid: Grid, panel: Panel, theme: Theme, others: Sequence[str]) -> None:
    """Exact match by test length on one task: means over seeds as lines, single seeds as dots.

    Lengths up to L are shaded, and chance is dotted where it is visible. Lengths are a geometric grid of multiples of L, so
    the axis is logarithmic, at half the scale up to L, where there is least to see.
    """
    column, x = panel.column, panel.column.at / panel.column.train_length
    ax.set_title(panel.title)
    set_axes(ax, column)
    (left, right), longest = ax.get_xlim(), panel.longest_seen / column.train_length
    ax.axvspan(left, 1, facecolor=theme.shade, zorder=0)
    if longest > 1:
        ax.axvspan(1, longest if longest < x[-1] else right, facecolor=theme.tuned_shade, zorder=0)
    ax.axvline(1, color=theme.muted, linewidth=0.8, zorder=0.6)
    if grey := [exact.mean(0) for name in others if len(exact := grid.exact(column.task, name))]:
        ax.plot(*join_lines(x, np.array(grey)), color=theme.grey, linewidth=0.6, zorder=1, label="others")
    if max(column.chance) > VISIBLE_CHANCE:
        ax.plot(x, column.chance, ":", color=theme.muted, linewidth=1, zorder=2.5, label="chance")
        place: dict[str, Any] = {"xy": (left, column.chance[0]), "xytext": (2, 1.5), "textcoords": "offset points"}
        ax.annotate("chance", color=theme.muted, fontsize=6, zorder=2.5, **place)
    shown = shown_members(grid, panel)
    for depth, (name, exact) in enumerate(reversed(shown.items())):
        style, above = panel.members[name], depth / len(shown)
        colour = style.colour(theme)
        plot_dots(ax, x, exact, color=colour, linewidth=1.9, alpha=0.55, zorder=3 + above, label=f"seeds of {name}")
        # Lower lines are thicker, so that they show around those on top where curves coincide.
        width = 2.4 - 1.2 * depth / max(1, len(shown) - 1)
        line: dict[str, Any] = {"color": colour, "linewidth": width, "linestyle": style.dashes, "zorder": 4 + above}
        ax.plot(x, exact.mean(0), solid_capstyle="butt", label=name, **line)


def set_axes(ax: "Axes", column: Column) -> None:
    """Scales, limits and ticks."""
    x = column.at / column.train_length
    ends = scaled(x[[0, -1]])
    pad = 0.02 * np.ptp(ends) or 0.1
    ax.set_xscale("function", functions=(scaled, unscaled))
    ax.set_xlim(*unscaled(ends + np.array([-1.5 * pad, pad])))
    ax.set_ylim(-0.03, 1.03)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", ".5", "", "1"])
    ax.set_xticks(x, tick_labels(column, ax.transData.transform(np.stack([x, x], 1))[:, 0]))


def scaled(multiple: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Octaves past L; those before L count half."""
    octaves = np.log2(np.maximum(multiple, 1e-9))
    return np.where(octaves < 0, octaves / 2, octaves)


def unscaled(octaves: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Inverse of ``scaled``."""
    return np.exp2(np.where(octaves < 0, octaves * 2, octaves))


def tick_labels(column: Column, at: Float[np.ndarray, " N"]) -> list[str]:
    """Multiples of L, empty where a label would touch its neighbour; L and the ends have priority, then whole multiples.

    Arguments:
        at: points.
    """
    lengths, base = column.lengths, column.train_length
    texts = ["L" if n == base else times(n / base) for n in lengths]
    half = [text_width(text, SMALL) / 2 + 1.5 for text in texts]
    ends, kept = (lengths[0], lengths[-1]), list[int]()
    priority = [(n != base, n not in ends, n % base != 0, n * 2 % base != 0, n) for n in lengths]
    for i in sorted(range(len(lengths)), key=priority.__getitem__):
        if all(abs(at[i] - at[j]) >= half[i] + half[j] for j in kept):
            kept.append(i)
    return [text if i in kept else "" for i, text in enumerate(texts)]


def curve_labels(grid: Grid, panel: Panel, theme: Theme, apart: frozenset[str]) -> list[CurveLabel]:
    """Names of a panel's members, with their scores past L."""
    labels = []
    for name, exact in shown_members(grid, panel).items():
        style, suffix = panel.members[name], f" {APART}" if name in apart else ""
        mean, end = float(summarise_cell(grid, panel.column, name).scores.mean()), float(exact.mean(0)[-1])
        labels.append(CurveLabel(name, mean, end, style.colour(theme), style.dashes, name == panel.best, suffix))
    return labels


def shown_members(grid: Grid, panel: Panel) -> dict[str, Float[np.ndarray, "S N"]]:
    """Encoding → exact match of its runs, for the members that have any."""
    return {name: exact for name in panel.members if len(exact := grid.exact(panel.column.task, name))}


def axes_note(grid: Grid, panels: Sequence[Panel], unit: str = "L") -> list[str]:
    """Notes on the axes and shading of every panel."""
    several = any(len(exact) > 1 for panel in panels for exact in shown_members(grid, panel).values())
    seeds = "mean over seeds (line) and single seeds (dots)" if several else "one seed"
    return [
        f"x axis: test length in multiples of {unit}; y axis: exact match, {seeds}",
        "shaded: lengths seen in training, l\u00a0≤\u00a0L",
    ]


def task_title(column: Column) -> str:
    return printable(f"{tasks.title(column.task)} ({column.variant})", 50)
