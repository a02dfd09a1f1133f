"""Accuracy by length on all tasks at once: the best few and the references stand out, all others are grey."""

from collections.abc import Mapping, Sequence

from .beside import FOOT, HEAD, Box
from .curves import APART, Panel, draw_panels, task_title
from .families import leaders
from .grid import Grid
from .plot import MARGIN, WIDTH, Page, footer_height, label
from .spotlight import BEST, apart, spotlight
from .summary import Row
from .tables import VISIBLE_CHANCE
from .theme import Theme

ACROSS = 3
LEFT = 0.34
NAMES = 1.5
HEIGHT = 1.75


def picture(grid: Grid, classes: Mapping[str, Sequence[Row]], theme: Theme) -> Page:
    """One panel a task."""
    members = spotlight(classes)
    drawn = {name for _, name in grid.runs}
    columns = [c for c in grid.columns if any(task == c.task for task, _ in grid.runs)]
    several = any(len(runs) > 1 for runs in grid.runs.values())
    notes = [note(several, len(drawn) - len(members), bool(apart(classes) & set(members)))]
    across = min(ACROSS, len(columns))
    pitch, down = HEAD + HEIGHT + FOOT + 0.06, -(-len(columns) // across)
    title = f"{label(grid.name)}: exact match by test length"
    top = Page(1, theme).heading(title)
    page = Page(top + down * pitch + footer_height(notes), theme)
    page.heading(title)
    step = (WIDTH - LEFT - MARGIN / 2) / across
    placed = []
    for i, column in enumerate(columns):
        row, place = divmod(i, across)
        ahead = [r.name for r in leaders(column, classes).get("standard", ()) if r.name in members]
        title = f"{task_title(column)}, L = {column.train_length}"
        box = Box(LEFT + place * step, top + row * pitch + HEAD, step - NAMES, HEIGHT)
        placed.append((Panel(title, column, members, grid.encodings, ahead[0] if ahead else None, apart(classes)), box))
    draw_panels(page, grid, placed, NAMES)
    page.footer(notes, top + down * pitch)
    return page


def note(several: bool, others: int, marked: bool) -> str:
    """How to read the panels."""
    parts = [
        "Across: test length in multiples of L; up: exact match, "
        + ("mean over seeds (line) and single seeds (dots)" if several else "one seed"),
        "shaded: lengths met in training, l ≤ L",
        f"dotted: chance, where it is above {VISIBLE_CHANCE:g}",
        "number: mean past L; bold: the highest of those named",
    ]
    if others:
        parts.append(f"named: the first {BEST} of the ranking and the references; grey: the {others} others")
    if marked:
        parts.append(f"{APART} ranked apart: saw longer lengths, or knows what the tokens mean")
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."
