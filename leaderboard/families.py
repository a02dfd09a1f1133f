"""Accuracy by length on one task, in small multiples: one panel a family, in which it stands out and all others are grey."""

from collections.abc import Mapping, Sequence

from .beside import FOOT, HEAD, Box
from .curves import APART, Panel, chance_note, draw_panels, styles, task_title, unit
from .grid import Column, Grid
from .markdown import share
from .plot import MARGIN, WIDTH, Page, footer_height, label
from .spotlight import apart
from .summary import Row
from .theme import Theme

ORDER = ("none", "absolute", "relative", "bias", "rotary", "scaling", "contextual", "ids", "training", "task-aware")
"""Families in the order of their panels, what is alike side by side; others follow by name."""
TITLES = {"none": "no encoding", "bias": "attention bias", "ids": "position ids", "training": "extra training stage"}
"""Of families whose own names say little outside of the catalogue."""
MOST = 6
"""Curves that stand out in one panel: as many as have colours of their own and room for names. Larger families take several."""
ACROSS = 3
LEFT = 0.34
"""Inches to the left of a row, for the values of exact match."""
NAMES = 1.5
"""Inches beside a panel, for names."""
HEIGHT = 1.28
NAMED = 3
"""Best encodings named above the panels."""


def families(classes: Mapping[str, Sequence[Row]]) -> dict[str, list[str]]:
    """Title of a panel → its encodings, in the order of the tables; families of more than ``MOST`` are cut evenly."""
    members: dict[str, list[str]] = {}
    for rows in classes.values():
        for row in rows:
            if row.record:
                members.setdefault(row.record.family, []).append(row.name)
    known = [family for family in ORDER if family in members]
    panels, taken = {}, set()
    for family in known + sorted(set(members) - set(known)):
        names, title = members[family], TITLES.get(family) or label(family, 24)
        parts = -(-len(names) // MOST)
        while title in taken:  # two families may be cut to one title
            title += "′"
        taken.add(title)
        for i in range(parts):
            cut = slice(len(names) * i // parts, len(names) * (i + 1) // parts)
            panels[title if parts == 1 else f"{title}, {i + 1} of {parts}"] = names[cut]
    return panels


def leaders(column: Column, classes: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """Ranking class → its rows with a run of this task, highest exact match past L first; ties by name."""
    found = {}
    for name, rows in classes.items():
        have = [(row.cells[column.task].ood, row) for row in rows]
        order = sorted(((-ood[0], row.name, row) for ood, row in have if ood), key=lambda entry: entry[:2])
        if order:
            found[name] = [row for _, _, row in order]
    return found


def best_line(column: Column, classes: Mapping[str, Sequence[Row]]) -> str:
    """``Highest past L: a .710 ± .050, b …; ranked apart: c …``."""
    found = leaders(column, classes)
    main = [said(row, column) for row in found.get("standard", ())[:NAMED]]
    others = [said(rows[0], column) for name, rows in found.items() if name != "standard"]
    parts = [f"Highest mean past L: {', '.join(main)}"] if main else []
    parts += [f"ranked apart{APART}: {', '.join(others)}"] if others else []
    return "; ".join(parts)


def said(row: Row, column: Column) -> str:
    ood = row.cells[column.task].ood
    assert ood is not None
    return f"{label(row.name, 40)} {share(ood[0])}" + (f" ± {share(ood[1])}" if ood[1] is not None else "")


def picture(grid: Grid, column: Column, classes: Mapping[str, Sequence[Row]], theme: Theme) -> Page:
    """The picture of one task."""
    here = {name for task, name in grid.runs if task == column.task}
    panels = [(title, [n for n in names if n in here]) for title, names in families(classes).items()]
    panels = [(title, names) for title, names in panels if names]
    ahead = leaders(column, classes)
    best = ahead["standard"][0].name if "standard" in ahead else None
    several = any(len(runs) > 1 for (task, _), runs in grid.runs.items() if task == column.task)
    notes = [note(column, several, classes)]
    pitch, down = HEAD + HEIGHT + FOOT + 0.06, -(-len(panels) // ACROSS)
    heading = (f"{task_title(column)}: exact match by test length, one panel a family", best_line(column, classes))
    top = Page(1, theme).heading(*heading)
    page = Page(top + down * pitch + footer_height(notes), theme)
    page.heading(*heading)
    step = (WIDTH - LEFT - MARGIN / 2) / ACROSS
    placed = []
    for i, (title, names) in enumerate(panels):
        row, place = divmod(i, ACROSS)
        box = Box(LEFT + place * step, top + row * pitch + HEAD, step - NAMES, HEIGHT)
        placed.append((Panel(title, column, styles(names), grid.encodings, best, apart(classes)), box))
    draw_panels(page, grid, placed, NAMES)
    page.footer(notes, top + down * pitch)
    return page


def note(column: Column, several: bool, classes: Mapping[str, Sequence[Row]]) -> str:
    """How to read the panels."""
    parts = [
        "Across: test length in multiples of "
        + unit(column)
        + "; up: exact match, "
        + ("mean over seeds (line) and single seeds (dots)" if several else "one seed"),
        "shaded: lengths met in training, l ≤ L",
        chance_note(column),
        "grey: all other encodings",
        "number: mean past L; bold: the highest",
    ]
    if apart(classes):
        parts.append(f"{APART} ranked apart: saw longer lengths, or knows what the tokens mean")
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."
