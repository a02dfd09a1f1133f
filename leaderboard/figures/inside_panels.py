"""Panels of the figures of probes: lines with one legend, and coloured cells with numbers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from leaderboard.format import printable, times

from .canvas import MARGIN, WIDTH, new_figure
from .heatmap import heat_colours
from .panels import styles
from .text_layout import POINT, SMALL, fitted
from .theme import Theme, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEGEND, LEFT, HEAD, FOOT = 1.55, 0.45, 0.26, 0.4
"""Inches: for the legend, for tick labels, above and below a panel."""

Line = tuple[list[float], list[float]]
"""x and y."""


class Lines(NamedTuple):
    """A panel of lines."""

    title: str
    lines: Mapping[str, Line]
    xlabel: str
    dashed: Sequence[Line] = ()
    """Grey lines for comparison."""
    log: bool = False
    """Whether x is logarithmic, in multiples of L."""
    sizes: bool = False
    """Whether x are the sizes of models and y, logarithmic, losses."""


class Heat(NamedTuple):
    """A panel of cells."""

    title: str
    values: Float[np.ndarray, "R C"]
    rows: Sequence[str]
    columns: Sequence[str]
    top: float
    """The value of the last colour."""


def draw_lines(title: str, panels: Sequence[Lines], theme: Theme, ylabel: str, notes: Sequence[str]) -> "Figure":
    """Panels in rows of three, with one legend to the right."""
    across = min(3, len(panels))
    down, height = -(-len(panels) // across), 1.45
    figure, bottom, top = new_figure(title, down * (height + HEAD + FOOT), theme, notes=[f"y axis: {ylabel}", *notes])
    total = figure.get_figheight()
    style = styles(dict.fromkeys(name for panel in panels for name in panel.lines))
    spec = figure.add_gridspec(down, across, wspace=0.16, hspace=(HEAD + FOOT) / height)
    place = {"left": LEFT / WIDTH, "right": 1 - (LEGEND + MARGIN) / WIDTH}
    spec.update(**place, bottom=bottom + FOOT / total, top=top - HEAD / total)
    for i, panel in enumerate(panels):
        ax = figure.add_subplot(spec[i])
        ax.set_title(fitted(printable(panel.title), 2.3 / POINT, 8, bold=True))
        for x, y in panel.dashed:
            ax.plot(x, y, "--", color=theme.muted, linewidth=0.9)
        for name, (x, y) in panel.lines.items():
            colour, dashes = style[name].colour(theme), style[name].dashes
            ax.plot(x, y, color=colour, linestyle=dashes, linewidth=1.4, marker=".", markersize=3)
        set_axes(ax, panel, theme)
    handles = [
        figure.axes[0].plot([], [], color=s.colour(theme), linestyle=s.dashes, linewidth=1.4, label=printable(name, 24))[0]
        for name, s in style.items()
    ]
    figure.legend(handles=handles, loc="upper right", bbox_to_anchor=(1 - MARGIN / WIDTH, top), fontsize=SMALL, frameon=False)
    return figure


def set_axes(ax: "Axes", panel: Lines, theme: Theme) -> None:
    """Scales, ticks and the label of x; where x is a length, a line at L."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    ax.set_xlabel(panel.xlabel, labelpad=1)
    ticks = sorted({x for xs, _ in panel.lines.values() for x in xs})
    if panel.log:
        ticks = sorted({1.0, *ticks})
        ticks = [x for x in ticks if x == int(x) or x in (ticks[0], ticks[-1])]
        ax.set_xscale("log", base=2)
        ax.set_xticks(ticks, ["L" if x == 1 else times(x) for x in ticks])
        ax.axvline(1, color=theme.muted, linewidth=0.8)
    elif panel.sizes:
        ax.set_xticks(ticks)
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 3)))
        ax.yaxis.set_major_formatter("{x:g}")
    else:
        ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.minorticks_off()


def draw_heats(
    title: str,
    panels: Sequence[Heat],
    theme: Theme,
    across: int,
    notes: Sequence[str],
    *,
    names: float = 1.15,
    cell: float | None = None,
) -> "Figure":
    """Panels of coloured cells with numbers.

    Arguments:
        names: inches left of each panel, for the names of rows.
        cell: width of a cell in inches; by default the panels fill the figure.
    """
    across = min(across, len(panels))
    down, rows = -(-len(panels) // across), max(len(panel.rows) for panel in panels)
    height = max(0.7, 0.17 * rows)
    rotated = any(is_long(panel.columns) for panel in panels)
    foot = names if rotated else FOOT
    figure, bottom, top = new_figure(title, down * (height + HEAD + foot), theme, notes=notes)
    total = figure.get_figheight()
    room = cell * len(panels[0].columns) if cell else (WIDTH - MARGIN - names * across) / across
    spec = figure.add_gridspec(down, across, wspace=names / room, hspace=(HEAD + foot) / height)
    right = (names * across + room * across) / WIDTH
    spec.update(left=names / WIDTH, right=right, bottom=bottom + foot / total, top=top - HEAD / total)
    for i, panel in enumerate(panels):
        draw_heat(figure.add_subplot(spec[i]), panel, theme, (names - 0.1) / POINT)
    return figure


def is_long(columns: Sequence[str]) -> bool:
    """Whether labels must be written upwards."""
    return max(map(len, columns), default=0) > 4


def draw_heat(ax: "Axes", panel: Heat, theme: Theme, names: float) -> None:
    from matplotlib.colors import to_hex

    colours, (rows, columns) = heat_colours(theme), panel.values.shape
    shown = np.ma.masked_invalid(panel.values / panel.top)
    ax.pcolormesh(shown, cmap=colours, vmin=0, vmax=1, edgecolors=theme.background, linewidth=0.6)
    ax.set(xlim=(0, columns), ylim=(rows, 0))
    ax.grid(False)
    ax.set_title(fitted(printable(panel.title), 3 / POINT, 8, bold=True) if panel.title else "")
    ax.set_yticks(np.arange(rows) + 0.5, [fitted(printable(name), names, SMALL) for name in panel.rows])
    ax.set_xticks(np.arange(columns) + 0.5, [fitted(printable(name), names, SMALL) if name else "" for name in panel.columns])
    if is_long(panel.columns):
        ax.tick_params(axis="x", labelrotation=90)
    for (row, column), value in np.ndenumerate(panel.values):
        if np.isfinite(value):
            colour = ink(to_hex(colours(min(1.0, value / panel.top))))
            text = f"{value:.2f}".removeprefix("0")
            ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=colour, fontsize=5.5)
