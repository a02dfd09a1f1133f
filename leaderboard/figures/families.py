"""Exact match by test length on one task: one panel per family, its members in colour, all other encodings grey."""

from typing import TYPE_CHECKING

import tasks
from leaderboard.data.grid import Column, Grid
from leaderboard.format import FAMILIES, VISIBLE_CHANCE, family_title, printable, share
from leaderboard.stats.rows import Classes, Row, all_rows

from .highlight import ranked_apart
from .panels import APART, SCORE_NOTE, Panel, axes_note, draw_panels, styles, task_title
from .theme import Theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 6
"""Most encodings in one panel, limited by colours and room for names. Larger families take several panels."""
NAMED = 3
"""Best encodings named above the panels."""
APART_NOTE = f"{APART} ranked apart: saw longer lengths, or knows what the tokens mean"


def families(classes: Classes) -> dict[str, list[str]]:
    """Title of a panel → its encodings, in the order of the tables; families of more than ``MOST`` are split evenly."""
    members: dict[str, list[str]] = {}
    for row in all_rows(classes):
        if row.record:
            members.setdefault(row.record.family, []).append(row.name)
    known = [family for family in FAMILIES if family in members]  # others follow by name
    panels, taken = {}, set()
    for family in known + sorted(set(members) - set(known)):
        names, title = members[family], family_title(family)
        parts = -(-len(names) // MOST)
        while title in taken:  # two long names may be shortened to the same title
            title += "′"
        taken.add(title)
        for i in range(parts):
            cut = slice(len(names) * i // parts, len(names) * (i + 1) // parts)
            panels[title if parts == 1 else f"{title}, {i + 1} of {parts}"] = names[cut]
    return panels


def leaders(column: Column, classes: Classes) -> dict[str, list[Row]]:
    """Ranking class → its rows with runs of this task, by score, highest first; ties by name."""
    ordered = {}
    for name, rows in classes.items():
        if have := [row for row in rows if row.cells[column.task].runs]:
            ordered[name] = sorted(have, key=lambda row: (-row.cells[column.task].scores.mean(), row.name))
    return ordered


def best_line(column: Column, classes: Classes) -> str:
    """``Highest scores past L: a .710 ± .050, b …; ranked apart: c …``."""
    ahead = leaders(column, classes)
    main = [with_score(row, column) for row in ahead.get("standard", ())[:NAMED]]
    others = [with_score(rows[0], column) for name, rows in ahead.items() if name != "standard"]
    parts = [f"Highest scores past L: {', '.join(main)}"] if main else []
    parts += [f"ranked apart{APART}: {', '.join(others)}"] if others else []
    return "; ".join(parts)


def with_score(row: Row, column: Column) -> str:
    """``rope .840 ± .021``."""
    score = row.cells[column.task].score
    assert score is not None
    return f"{printable(row.name, 40)} {share(score[0])}" + (f" ± {share(score[1])}" if score[1] is not None else "")


def draw_families(grid: Grid, column: Column, classes: Classes, theme: Theme) -> "Figure":
    """One panel per family with runs of this task."""
    ahead = leaders(column, classes)
    best = ahead["standard"][0].name if "standard" in ahead else None
    panels = []
    for title, names in families(classes).items():
        names = [name for name in names if (column.task, name) in grid.runs]
        if names:
            panels.append(Panel(title, column, styles(names), best))
    known = tasks.catalogue().get(column.task)
    chance = max(column.chance)
    notes = axes_note(grid, panels, f"L = {column.train_length}" + (f" ({printable(known.length_is)})" if known else ""))
    notes.append("chance is dotted" if chance > VISIBLE_CHANCE else f"chance is under {max(chance, 0.001):.2g}")
    apart = ranked_apart(classes)
    notes += ["grey: all other encodings", f"{SCORE_NOTE}; bold: the highest{' in the main table' if apart else ''}"]
    if apart:
        notes.append(APART_NOTE)
    title, subtitle = f"{task_title(column)}: exact match by test length, one panel per family", best_line(column, classes)
    return draw_panels(
        grid, panels, theme, title, height=1.28, names=1.5, others=grid.encodings, apart=apart, subtitle=subtitle, notes=notes
    )
