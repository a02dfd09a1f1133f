"""The pictures of a board: which there are, and their bytes as SVG and PNG, light and dark."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from urllib.parse import quote

from . import cost, families, heatmap, overview, profiles, stretched
from .curves import task_title
from .grid import Grid
from .plot import Page, both_looks
from .summary import Row, summarise
from .theme import Theme

OVERVIEW = "accuracy"
SCORES = "scores"
PROFILES = "profiles"
COST = "cost"


def of_task(task: str) -> str:
    """The stem of a task's picture; without a dot, which would make it another's dark look."""
    return f"accuracy-{quote(task, safe='').replace('.', '%2E')}"


def shown(grid: Grid, classes: Mapping[str, Sequence[Row]]) -> dict[str, str]:
    """Stem of every picture of a grid → what it shows, in words; in the order of the board, none without runs.

    The files of a stem are ``plot.file_name(stem, "svg" or "png", "light" or "dark")``; ``markdown.picture`` links them.

    Arguments:
        classes: as ``summarise`` gives them.
    """
    if not grid.runs:
        return {}
    found = {OVERVIEW: "Exact match by test length, one panel a task"}
    found[SCORES] = "Score past L and reach, encodings by tasks, as numbers on colour"
    rows = [row for group in classes.values() for row in group if row.complete]
    if rows:
        found[PROFILES] = "Performance profiles: share of runs that score above each threshold"
    if any(row.step_time is not None for row in rows):
        found[COST] = "Score past L against the time of a training step"
    for column in grid.columns:
        if any(task == column.task for task, _ in grid.runs):
            found[of_task(column.task)] = f"{task_title(column)}: exact match by test length, one panel a family"
    if stretched.shown(grid):
        found[stretched.PICTURE] = f"{stretched.TITLE}: exact match by test length"
    return found


def draw(grid: Grid, classes: Mapping[str, Sequence[Row]] | None = None) -> dict[str, bytes]:
    """File name → bytes of every picture of a grid, each as SVG and PNG, light and dark; nothing without runs.

    Arguments:
        classes: as ``summarise`` gives them; computed where they are not at hand.
    """
    if classes is None:
        classes = summarise(grid) if grid.runs else {}
    draws: dict[str, Callable[[Theme], Page]] = {
        OVERVIEW: partial(overview.picture, grid, classes),
        SCORES: partial(heatmap.picture, grid, classes),
        PROFILES: partial(profiles.picture, classes),
        COST: partial(cost.picture, classes),
        stretched.PICTURE: partial(stretched.picture, grid),
    }
    for column in grid.columns:
        draws[of_task(column.task)] = partial(families.picture, grid, column, classes)
    files: dict[str, bytes] = {}
    for stem in shown(grid, classes):
        files |= both_looks(stem, draws[stem])
    return files
