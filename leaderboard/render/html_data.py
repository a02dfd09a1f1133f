"""The data behind the HTML page's script: curves by seed, what task columns can show, and pairs. The rest is in its tables.

Means are stored as the text that the board prints, so that page and board never differ in the last digit.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tasks
from leaderboard.data.grid import Column, Grid
from leaderboard.figures.panels import task_title
from leaderboard.format import VISIBLE_CHANCE, family_title, p_value, printable, ranking_title, rerun_command, share
from leaderboard.stats import scores as st
from leaderboard.stats.rows import Cell, Classes, Row, all_rows
from leaderboard.stats.significance import ALPHA
from leaderboard.stats.summary import separation

from . import columns
from .task_metrics import IN_DISTRIBUTION, REACH, SCORE

MAX_NAME = 120
"""Most characters of a name."""
VIEWS = (SCORE, IN_DISTRIBUTION, REACH)
"""What the task columns can show, the default first."""


def board_data(grid: Grid, classes: Classes, selected: Iterable[str]) -> dict[str, Any]:
    """One version of a suite, for JSON.

    Arguments:
        selected: the encodings selected at first.
    """
    rows = all_rows(classes)  # the script refers to an encoding by its index here
    ids = {row.name: i for i, row in enumerate(rows)}
    return {
        "tasks": [task_data(column) for column in grid.columns],
        "encodings": [encoding_data(grid, row) for row in rows],
        "selected": [ids[name] for name in selected],
        "pairs": pair_data(rows),
    }


def task_data(column: Column) -> dict[str, Any]:
    known = tasks.catalogue().get(column.task)
    return {
        "name": printable(column.task),
        "title": task_title(column),
        "unit": printable(known.length_is) if known else "",
        "base": column.train_length,
        "lengths": column.lengths,
        "chance": [share(x) for x in column.chance] if max(column.chance) > VISIBLE_CHANCE else None,
    }


def encoding_data(grid: Grid, row: Row) -> dict[str, Any]:
    """One encoding: what it is, and its cells in the order of the tasks; None where there is no run."""
    cells = [row.cells[column.task] for column in grid.columns]
    record = row.record
    settings = columns.settings_text(record) if record else ""
    return {
        "name": printable(row.name, MAX_NAME),
        "class": ranking_title(row.ranking),
        "apart": row.ranking != "standard",
        "family": family_title(record.family) if record else "",
        "paper": printable(f"{record.title} ({record.year})", 300) if record else "",
        "settings": printable(settings, 300) if settings else "",
        "source": columns.SOURCE.text(row),
        "lengths": columns.LENGTHS.text(row) if record and record.lengths else "",
        "cells": [cell_data(cell) if cell.runs else None for cell in cells],
        "views": [cell_views(cell, row) for cell in cells],
    }


def cell_data(cell: Cell) -> dict[str, Any]:
    """Exact match of a cell by length: its mean as text, and each seed's."""
    return {
        "mean": [share(x) for x in cell.by_length],
        "exact": [[rounded(x) for x in run] for run in cell.exact],
        "seeds": [f"{run.seed}{' (diverged)' if run.status == 'diverged' else ''}" for run in cell.runs],
        "command": printable(rerun_command(cell.runs[0]), 500),
    }


def cell_views(cell: Cell, row: Row) -> list[tuple[str, float] | tuple[str]]:
    """What each of ``VIEWS`` shows, with the share to sort and colour by; no share where there is no run."""
    return [
        (unbroken_interval(view.text(cell, row)), rounded(value)) if (value := view.value(cell)) is not None else (cell.state,)
        for view in VIEWS
    ]


def unbroken_interval(text: str) -> str:
    """``.423 ± .051`` on one line."""
    return text.replace(" ± ", "\u00a0±\u00a0")


def rounded(value: float) -> float:
    """Short enough for the file, and far more precise than what is printed."""
    return round(float(value), 6)


def pair_data(rows: Sequence[Row]) -> list[list[tuple[str, str, int] | tuple[str] | None]]:
    """Pairs of each row with every later one: P(better) as text, and where they were tested, p and the verdict.

    The verdict is 1 if the row is separated above the other, -1 if below, else 0. None where one of the two is incomplete.
    """
    return [[one_pair(a, b) for b in rows[i + 1 :]] for i, a in enumerate(rows)]


def one_pair(a: Row, b: Row) -> tuple[str, str, int] | tuple[str] | None:
    if not (a.complete and b.complete):
        return None
    better = share(st.probability_of_improvement(a.scores, b.scores))
    p = a.ps.get(b.name)
    return (better,) if p is None else (better, p_value(p), {"above": 1, "below": -1, None: 0}[separation(a, b)])


def page_settings() -> dict[str, Any]:
    """Constants that the script prints."""
    return {"alpha": share(ALPHA).rstrip("0"), "views": [view.title for view in VIEWS]}
