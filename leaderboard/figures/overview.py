"""Exact match by test length on all tasks: the best few encodings and the references in colour, all others grey."""

from typing import TYPE_CHECKING

from leaderboard.data.grid import Grid
from leaderboard.format import VISIBLE_CHANCE, printable
from leaderboard.stats.rows import Classes

from .families import APART_NOTE, leaders
from .highlight import BEST, highlighted, ranked_apart
from .panels import SCORE_NOTE, Panel, axes_note, draw_panels, task_title
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_overview(grid: Grid, classes: Classes, theme: Theme) -> "Figure":
    members, apart = highlighted(classes), ranked_apart(classes)
    panels = []
    for column in grid.columns:
        if any(task == column.task for task, _ in grid.runs):
            ahead = [row.name for row in leaders(column, classes).get("standard", ()) if row.name in members]
            title = f"{task_title(column)}, L = {column.train_length}"
            panels.append(Panel(title, column, members, ahead[0] if ahead else None))
    notes = axes_note(grid, panels)
    notes.append(f"dotted: chance, where it is above {VISIBLE_CHANCE:g}")
    notes.append(f"{SCORE_NOTE}; bold: the highest of those named" + " in the main table" * bool(apart & set(members)))
    if count := len({name for _, name in grid.runs}) - len(members):
        notes.append(f"named: the first {BEST} of the ranking and the references; grey: the {count} others")
    if apart & set(members):
        notes.append(APART_NOTE)
    title, others = f"{printable(grid.name)}: exact match by test length", grid.encodings
    return draw_panels(grid, panels, theme, title, height=1.75, names=1.5, others=others, apart=apart, notes=notes)
