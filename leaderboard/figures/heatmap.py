"""Heat map, encodings by tasks: score past L and reach, as numbers on colour."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leaderboard.data.grid import Grid
from leaderboard.format import ABSENT, ranking_title, reach_text, share
from leaderboard.stats.rows import Cell, Classes, Row, all_rows
from leaderboard.stats.scores import GATE, REACH, Reach

from .canvas import MARGIN, MIDDLE, WIDTH, join_lines, new_figure
from .panels import task_title
from .text_layout import NORMAL, POINT, SMALL, folded
from .theme import Theme, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

ROW, GAP, HEAD = 0.195, 0.34, 0.55
"""Inches of a row, between ranking classes (for the heading), and above the first row (for block and column titles)."""
NAMES, BETWEEN = 2.35, 0.18
"""Inches for tier and name, and between the two blocks."""
FEWER = "*"
"""Follows a number from fewer seeds than expected."""


class Shown(NamedTuple):
    """Content of a cell."""

    value: float | None
    """Position in the colour map, 0 … 1; None for no colour."""
    text: str
    flagged: bool = False
    bold: bool = False
    seeds: tuple[float, ...] = ()
    interval: tuple[float, float] | None = None


def draw_heatmap(grid: Grid, classes: Classes, theme: Theme) -> "Figure":
    """Two axes per ranking class, rows in the order of the board: scores past L left, reach right."""
    counts, tasks = [len(rows) for rows in classes.values()], len(grid.columns)
    body = HEAD + sum(counts) * ROW + (len(counts) - 1) * GAP
    figure, bottom, top = new_figure("Score past L and reach, encodings by tasks", body + 0.08, theme, notes=explained(classes))
    total, width = figure.get_figheight(), WIDTH - 2 * MARGIN - NAMES
    spaces = {"hspace": GAP / (sum(counts) * ROW / len(counts)), "wspace": BETWEEN / ((width - BETWEEN) / 2)}
    spec = figure.add_gridspec(len(counts), 2, height_ratios=counts, **spaces)
    left, right = (MARGIN + NAMES) / WIDTH, 1 - MARGIN / WIDTH
    spec.update(left=left, right=right, bottom=bottom + 0.08 / total, top=top - HEAD / total)
    room = (width - BETWEEN) / (2 * tasks + 2) / POINT - 3
    titles = ["\n".join(folded(task_title(column).split(" (")[0], room, SMALL)) for column in grid.columns]
    for i, (name, rows) in enumerate(classes.items()):
        scores, reaches = figure.add_subplot(spec[i, 0]), figure.add_subplot(spec[i, 1])
        draw_cells(scores, [score_cells(row) for row in rows], theme)
        draw_cells(reaches, [reach_cells(row) for row in rows], theme)
        name_rows(scores, rows, theme)
        if i == 0:
            set_titles(scores, "Score past L: 0 is guessing, 1 is perfect", ["overall", *titles])
            set_titles(reaches, "Reach, in multiples of L", ["overall", *titles])
        else:
            heading: dict[str, Any] = {"xytext": (-NAMES / POINT, 5), "textcoords": "offset points", "va": "bottom"}
            scores.annotate(
                ranking_title(name), (0, 1), xycoords="axes fraction", fontsize=NORMAL, fontweight="bold", **heading
            )
    return figure


def set_titles(ax: "Axes", title: str, columns: Sequence[str]) -> None:
    ax.set_xticks(np.arange(len(columns)) + 0.5, columns)
    ax.tick_params(labeltop=True, labelbottom=False)
    ax.set_title(title, fontsize=NORMAL, y=1, pad=28)


def name_rows(ax: "Axes", rows: Sequence[Row], theme: Theme) -> None:
    """Tiers and names left of the rows."""
    place: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
    for i, row in enumerate(rows):
        tier = str(row.tier or ABSENT) if any(other.tier for other in rows) else ""
        name = "".join(folded(row.name, (NAMES - 0.36) / POINT, SMALL))
        at, y = (0, i + 0.5), -MIDDLE * SMALL
        ax.annotate(tier, at, xytext=((0.22 - NAMES) / POINT, y), ha="right", color=theme.muted, **place)
        ax.annotate(name, at, xytext=((0.3 - NAMES) / POINT, y), **place)


def score_cells(row: Row) -> list[Shown]:
    """The overall score, then the score on each task."""
    overall = Shown(row.score, "incomplete" if row.score is None else share(row.score), bold=True, interval=row.interval)
    return [overall, *(score_cell(cell) for cell in row.cells.values())]


def score_cell(cell: Cell) -> Shown:
    """Mean over seeds on one task."""
    if not cell.runs:
        return Shown(None, cell.state)
    mean, seeds = float(cell.scores.mean()), tuple(np.unique(cell.scores)) if len(cell.scores) > 1 else ()
    return Shown(mean, share(mean) + FEWER * (len(cell.runs) < cell.asked), cell.flagged, seeds=seeds)


def reach_cells(row: Row) -> list[Shown]:
    """Geometric mean over tasks, then the reach on each task."""
    cells = list(row.cells.values())
    longest = [cell.column.lengths[-1] / cell.column.train_length for cell in cells]
    overall = reach_cell(row.reach, math.prod(longest) ** (1 / len(longest)), "incomplete", bold=True)
    return [overall, *(reach_cell(cell.reach, end, cell.state, cell.flagged) for cell, end in zip(cells, longest, strict=True))]


def reach_cell(reach: Reach | None, longest: float, absent: str, flagged: bool = False, bold: bool = False) -> Shown:
    """One reach; the colour is logarithmic, from L to the longest length.

    Arguments:
        longest: multiple of L.
        absent: text without a reach.
    """
    if reach is None:
        return Shown(None, absent)
    return Shown(min(1.0, max(0.0, math.log(reach.at) / math.log(longest))), reach_text(reach), flagged, bold)


def heat_colours(theme: Theme) -> "Colormap":
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("heat", theme.heat)


def draw_cells(ax: "Axes", table: Sequence[Sequence[Shown]], theme: Theme) -> None:
    """Coloured cells with their numbers, a corner where the gate is failed, seeds as ticks and intervals as lines below."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_hex

    heat = heat_colours(theme)
    values = np.array([[np.nan if cell.value is None else cell.value for cell in row] for row in table])
    ax.pcolormesh(np.ma.masked_invalid(values), cmap=heat, vmin=0, vmax=1, zorder=0.2)
    corners: list[list[tuple[float, float]]] = []
    marks: dict[str, list[list[list[float]]]] = {"#000000": [], "#FFFFFF": []}
    for (i, j), value in np.ndenumerate(values):
        cell, weight = table[i][j], "bold" if table[i][j].bold else "normal"
        if cell.value is None:
            ax.text(j + 0.5, i + 0.5, cell.text, ha="center", va="center", color=theme.muted, fontsize=6)
            continue
        colour = ink(to_hex(heat(value)))
        ax.text(j + 0.5, i + 0.46, cell.text, ha="center", va="center", color=colour, fontweight=weight)
        start, length = j + 0.05, 0.89  # from a score of 0 to 1
        marks[colour] += [[[start + length * seed] * 2, [i + 0.77, i + 0.94]] for seed in cell.seeds]
        marks[colour] += [[[start + length * end for end in cell.interval], [i + 0.86] * 2]] if cell.interval else []
        corners += [[(j + 0.87, i), (j + 1, i), (j + 1, i + 0.4)]] if cell.flagged else []
    for colour, lines in marks.items():
        if lines:
            x, y = np.array(lines).swapaxes(0, 1)
            ax.plot(*join_lines(x, y), color=colour, linewidth=0.8, alpha=0.75, solid_capstyle="butt", label="seeds")
    ax.add_collection(PolyCollection(corners, facecolors=theme.flag, zorder=0.3, label="gate"))
    rows, columns = values.shape
    ax.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.set_xticks(range(columns + 1), minor=True)
    ax.set_yticks(range(rows + 1), minor=True)
    ax.grid(which="minor", axis="both", color=theme.background, linewidth=1.5)  # gaps between cells
    ax.tick_params(which="both", length=0)


def explained(classes: Classes) -> list[str]:
    """Notes below the figure."""
    rows = all_rows(classes)
    cells = [cell for row in rows for cell in row.cells.values()]
    tested = any(row.tier for row in rows)
    notes = ["number before a name: its tier, of which the test separates no two rows"] if tested else []
    notes += ["score: mean over seeds; overall: the mean over tasks, for reach the geometric mean"]
    if any(len(cell.runs) > 1 for cell in cells):
        notes.append(
            "ticks at the bottom of a cell: its seeds, from 0 at the left to 1 at the right; lines: 95\u00a0% intervals"
        )
    notes.append(
        f"reach: where exact match, guessing taken out, first falls under {REACH:g}; ≥: the test ends first; "
        "<: at the shortest length already"
    )
    if any(cell.flagged for cell in cells):
        notes.append(f"red corner: under {share(GATE)} at l\u00a0≤\u00a0L, so the task was not learned at the training lengths")
    if any(cell.runs and len(cell.runs) < cell.asked for cell in cells):
        notes.append(f"{FEWER}: fewer seeds than expected")
    return notes
