"""All figures of a board: names, alt texts, and SVGs, light and dark."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from leaderboard.data.grid import Grid
from leaderboard.stats.robustness import robustness
from leaderboard.stats.rows import Classes, all_rows
from leaderboard.stats.summary import summarise

from .canvas import file_name, render_svgs
from .cost import draw_cost
from .families import draw_families
from .heatmap import draw_heatmap
from .overview import draw_overview
from .panels import task_title
from .profiles import draw_profiles
from .robustness import ALT as ROBUSTNESS_ALT
from .robustness import STEM as ROBUSTNESS
from .robustness import draw_robustness
from .stretched import STEM as STRETCHED
from .stretched import TITLE as STRETCHED_TITLE
from .stretched import compared, draw_stretched
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OVERVIEW = "accuracy"
OVERVIEW_ALT = "Exact match by test length, one panel per task"
SCORES = "scores"
PROFILES = "profiles"
COST = "cost"


class BoardFigure(NamedTuple):
    alt: str
    draw: "Callable[[Theme], Figure]"


def task_stem(task: str) -> str:
    """Stem of a task's figure; without a dot, which would make it another figure's dark look."""
    return f"accuracy-{quote(task, safe='').replace('.', '%2E')}"


def figures_of(grid: Grid, classes: Classes) -> dict[str, BoardFigure]:
    """Stem → figure, in the order of the board; empty without runs.

    The files of a stem are ``canvas.file_name(stem, "light" or "dark")``; ``markdown.themed_picture`` links them.
    """
    if not any(row.runs for row in all_rows(classes)):
        return {}
    figures = {OVERVIEW: BoardFigure(OVERVIEW_ALT, partial(draw_overview, grid, classes))}
    alt = "Score past L and reach, encodings by tasks, as numbers on colour"
    figures[SCORES] = BoardFigure(alt, partial(draw_heatmap, grid, classes))
    rows = [row for row in all_rows(classes) if row.complete]
    if rows:
        alt = "Performance profiles: share of runs that score above each threshold"
        figures[PROFILES] = BoardFigure(alt, partial(draw_profiles, classes))
    if any(row.step_time is not None for row in rows):
        figures[COST] = BoardFigure("Score past L against the time of a training step", partial(draw_cost, classes))
    if found := robustness(grid):
        figures[ROBUSTNESS] = BoardFigure(ROBUSTNESS_ALT, partial(draw_robustness, found))
    for column in grid.columns:
        if any(task == column.task for task, _ in grid.runs):
            alt = f"{task_title(column)}: exact match by test length, one panel per family"
            figures[task_stem(column.task)] = BoardFigure(alt, partial(draw_families, grid, column, classes))
    if compared(grid):
        figures[STRETCHED] = BoardFigure(f"{STRETCHED_TITLE}: exact match by test length", partial(draw_stretched, grid))
    return figures


def alt_texts(grid: Grid, classes: Classes) -> dict[str, str]:
    """Stem → alt text of every figure of a grid."""
    return {stem: figure.alt for stem, figure in figures_of(grid, classes).items()}


def draw(grid: Grid) -> dict[str, bytes]:
    """File name → SVG of every figure of a grid, light and dark; empty without runs."""
    figures = figures_of(grid, summarise(grid) if grid.runs else {})
    return {file_name(stem, look): svg for stem in figures for look, svg in render_svgs(figures[stem].draw).items()}
