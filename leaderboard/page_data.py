"""What the page's script draws from: curves by seed, what a task's column can show, and pairs. All else is in its tables.

Means come as the text that the board prints, so that page and board never differ in a last digit.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import tasks

from . import statistics as st
from .board import HEADINGS
from .encoding_pages import reproduce
from .grid import Column, Grid
from .markdown import printable, share
from .significance import ALPHA
from .spotlight import spotlight
from .summary import Cell, Row, separated
from .tables import VISIBLE_CHANCE, gated, ood, reached

Classes = Mapping[str, Sequence[Row]]
"""Ranking class → its rows, as ``summarise`` gives them."""

NAME = 120
"""Characters of a name."""
VIEWS = {"ood": "accuracy past L", "score": "score", "in": "accuracy at l ≤ L", "reach": "reach"}
"""What the task columns can show, the first to begin with."""


def class_title(name: str) -> str:
    """Of a ranking class."""
    if name == "standard":
        return "Standard: saw no length past L in training"
    return HEADINGS.get(name) or f"Ranking class {printable(name)}"


def in_order(classes: Classes) -> list[Row]:
    """All rows, in the order of the tables; the script knows an encoding by its place here."""
    return [row for rows in classes.values() for row in rows]


def board(grid: Grid, classes: Classes) -> dict[str, Any]:
    """One version of a suite, for JSON."""
    rows = in_order(classes)
    place = {row.name: i for i, row in enumerate(rows)}
    return {
        "tasks": [task(column) for column in grid.columns],
        "encodings": [encoding(grid, row) for row in rows],
        "first": [place[name] for name in spotlight(classes)],
        "pairs": pairs(rows),
    }


def task(column: Column) -> dict[str, Any]:
    known = tasks.catalogue().get(column.task)
    return {
        "name": printable(column.task),
        "title": printable(f"{known.title if known else column.task} ({column.variant})"),
        "unit": printable(known.length_is) if known else "",
        "base": column.train_length,
        "lengths": column.lengths,
        "chance": [share(x) for x in column.chance] if max(column.chance) > VISIBLE_CHANCE else None,
    }


def encoding(grid: Grid, row: Row) -> dict[str, Any]:
    """One encoding: what it is, and its cells in the order of the tasks; None where there is no run."""
    cells = [row.cells[column.task] for column in grid.columns]
    record = row.record
    settings = ", ".join(f"{k} = {v}" for k, v in sorted(record.settings.items())) if record else ""
    return {
        "name": printable(row.name, NAME),
        "class": class_title(row.ranking),
        "apart": row.ranking != "standard",
        "family": printable(record.family) if record else "",
        "paper": printable(f"{record.title} ({record.year})", 300) if record else "",
        "settings": printable(settings, 300) if settings else "",
        "cells": [numbers(cell) if cell.runs else None for cell in cells],
        "views": [views(cell, row) for cell in cells],
    }


def numbers(cell: Cell) -> dict[str, Any]:
    """Exact match of a cell by length: its mean as text, and each seed's."""
    return {
        "mean": [share(x) for x in cell.by_length],
        "exact": [[round(float(x), 6) for x in run] for run in cell.exact],
        "seeds": [f"{run.seed}{' (diverged)' if run.status == 'diverged' else ''}" for run in cell.runs],
        "again": printable(reproduce(cell.runs[0]), 500),
    }


def views(cell: Cell, row: Row) -> list[tuple[str, float] | tuple[str]]:
    """What each of ``VIEWS`` shows, and a share to sort by and to colour with; no share where there is no run."""
    if cell.ood is None or cell.in_distribution is None or cell.reach is None:
        return [(cell.state,)] * len(VIEWS)
    score = float(cell.scores.mean())
    return [
        (ood(cell, row).replace(" ± ", "\u00a0±\u00a0"), tidy(cell.ood[0])),
        (share(score), tidy(score)),
        (gated(cell.in_distribution, cell.flagged), tidy(cell.in_distribution)),
        (reached(cell), tidy(cell.reach / cell.column.lengths[-1])),
    ]


def tidy(value: float) -> float:
    """Short enough for the file, and far finer than what is printed."""
    return round(float(value), 6)


def pairs(rows: Sequence[Row]) -> list[list[tuple[str, str, int] | tuple[str] | None]]:
    """For each complete row and every one after it: P(better) as text, and where they were tested, p and the verdict.

    The verdict is 1 where the row is separated above the other, -1 where below, else 0. None stands for incomplete rows.
    """
    return [[pair(a, b) for b in rows[i + 1 :]] for i, a in enumerate(rows)]


def pair(a: Row, b: Row) -> tuple[str, str, int] | tuple[str] | None:
    if not (a.complete and b.complete):
        return None
    better = share(st.improvement(a.scores, b.scores))
    p = a.ps.get(b.name, b.ps.get(a.name))  # a row of another table knows the one it was compared with, not the reverse
    if p is None:
        return (better,)
    return better, "<.001" if p < 0.001 else share(p), {"above": 1, "below": -1, None: 0}[separated(a, b, p)]


def limits() -> dict[str, Any]:
    """What the script says of the tests."""
    return {"alpha": share(ALPHA).rstrip("0"), "views": list(VIEWS.values())}
