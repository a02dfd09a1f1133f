"""The pictures of a board: accuracy by length, one picture a task, one of all tasks, and one of RoPE's stretched forms."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from . import stretched
from .grid import Column, Grid
from .markdown import share
from .plot import COLOURS, DASHES, DPI, GREY, LEGEND, MARKERS, Style, curves, fresh_settings, keys, label, png
from .statistics import out_of_distribution

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

OVERVIEW = "accuracy.png"
STYLED = 12
"""More lines than this cannot be told apart, nor named in a legend: only the best stand out, the others are grey."""


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
    """File name → PNG: the overview, every task with at least one run, and RoPE's stretched forms; nothing without runs."""
    if not grid.runs:
        return {}
    with fresh_settings():
        pictures = {OVERVIEW: overview(grid)}
        for column in grid.columns:
            if any(task == column.task for task, _ in grid.runs):
                pictures[file_name(column.task)] = one_task(grid, column)
        if stretched.shown(grid):
            pictures[stretched.PICTURE] = stretched.picture(grid)
    return pictures


def one_task(grid: Grid, column: Column) -> bytes:
    """The picture of one task; its legend says the mean past L and is sorted by it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 3.9), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    lines = curves(axes, grid, column, styles(grid))
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
        lines |= curves(panels[i], grid, column, styles(grid), small=True)
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
