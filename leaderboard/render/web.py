"""The interactive page: one folder, no server, no network.

Tables are HTML from the list of columns; a script sorts and draws.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tasks
from bench.files import write_atomic
from leaderboard.export import plain, write_table
from leaderboard.figures.style import colour
from leaderboard.results.facts import FACTS, FAMILIES, SOURCES, class_title, fact, source_file
from leaderboard.stats.rows import Board
from leaderboard.stats.scores import cells
from tasks import InputError

from .columns import PAGE, TERMINAL, WEB, Column, rows_of, shown
from .pages import render, verdict_text
from .published import built_in
from .text import printable, safe_link

WEB_FILES = Path(__file__).parent / "web"
SCRIPTS = ("vendor/chart.umd.min.js", "vendor/svgcanvas.min.js", "live.js", "charts.js", "page.js")
STYLE = "page.css"
GROUPS = {
    "main": "Scores and cost",
    "limit": "Length limits",
    "within": "Within the training length",
    "token": "Token accuracy",
    "nll": "Loss",
    "details": "Details",
}
"""Group of columns → its title. The first is always shown."""
DETAILS = ("weighted_low", "flops")
"""Columns of other views that are details here."""


def write_page(boards: Iterable[Board], folder: Path) -> Path:
    """Write ``index.html`` into a folder, which is created, and beside it the rows of each suite as CSV and JSON; its path.

    Raises:
        InputError: the folder cannot be written, or holds another page.
    """
    path, boards = folder / "index.html", list(boards)
    if path.exists() and 'content="lprime board"' not in path.read_text(encoding="utf-8", errors="replace"):
        raise InputError(f"{path} was not written by lprime board; choose another folder")
    write_atomic(path, page(boards))
    for board in boards:
        for ending in (".csv", ".json"):
            write_table(board.rows, folder / (board.suite + ending))
    return path


def page(boards: Iterable[Board]) -> str:
    """The page as HTML."""
    shown_boards = [board_values(board) for board in boards]
    style, *scripts = ((WEB_FILES / name).read_text(encoding="utf-8") for name in (STYLE, *SCRIPTS))
    data = json.dumps([one["data"] for one in shown_boards], ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return render(
        "page.html.j2",
        boards=shown_boards,
        groups=GROUPS,
        policy=policy(style, *scripts),
        data=data.replace("<", "\\u003c"),  # no text from results can end the element
        scripts=scripts,
        style=style,
    )


def policy(style: str, *scripts: str) -> str:
    """A content security policy that allows this style and these scripts, and nothing else."""

    def allowed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    rules = ["default-src 'none'", f"script-src {' '.join(map(allowed, scripts))}", f"style-src {allowed(style)}"]
    return "; ".join([*rules, "img-src data:", "base-uri 'none'", "form-action 'none'"])


def group_of(column: Column) -> str:
    kind = column.key.partition(".")[0]
    if column.key in DETAILS:
        return "details"
    return kind if kind in GROUPS else "main" if {TERMINAL, PAGE} & set(column.views) else "details"


def board_values(board: Board) -> dict[str, Any]:
    """What the template shows of one suite, and the data of its charts."""
    rows = board.rows[board.rows["complete"]] if board.rows["complete"].any() else board.rows
    columns = shown(board.tasks, WEB, rows)
    every = rows_of(rows)
    values = plain(rows)
    cells_of = [[(c, c.show(row), known[c.key]) for c in columns] for row, known in zip(every, values, strict=True)]
    return {
        "suite": board.suite,
        "version": board.version,
        "verdict": verdict_text(board),
        "columns": [(column, group_of(column)) for column in columns],
        "rows": [{"row": row, "cells": own} for row, own in zip(every, cells_of, strict=True)],
        "classes": {kind: class_title(kind) for kind in rows["ranking"].unique()},
        "data": {
            "suite": board.suite,
            "tasks": {task: tasks.title(task) for task in board.tasks},
            "rows": {row["encoding"]: row_data(row) for row in values},
            "recipes": [recipe(label, runs, rate) for label, runs, rate in recipes(board)],
        },
    }


def recipes(board: Board) -> Iterator[tuple[str, pd.DataFrame, bool]]:
    """Title and runs of each recipe of a suite, and whether it is one of several learning rates; the board's own first."""
    yield "as ranked", board.runs, False
    for rate, runs in board.all_runs.groupby("learning_rate") if len(board.rates) > 1 else ():
        yield f"learning rate {rate:g}", runs, True


def recipe(label: str, runs: pd.DataFrame, rate: bool) -> dict[str, Any]:
    """Scores in thousandths by task, encoding, block and length, None without a run; and the relative lengths of each block."""
    seeds = sorted(runs["seed"].unique())
    found: dict[str, Any] = {"label": label, "rate": rate, "at": {}, "values": {}}
    for (task, seed), group in runs.groupby(["task", "seed"], observed=True):
        at, values = (found[key].setdefault(task, empty) for key, empty in (("at", [None] * len(seeds)), ("values", {})))
        at[seeds.index(seed)] = np.round(group["length"].iloc[0] / group["train_length"].iloc[0], 3).tolist()
        thousandths = np.round(1000 * np.clip(cells(group), -1, 1)).astype(int).tolist()
        for name, own in zip(group["encoding"], thousandths, strict=True):
            values.setdefault(name, [None] * len(seeds))[seeds.index(seed)] = own
    return found


def row_data(row: dict[str, Any]) -> dict[str, Any]:
    """An encoding for the charts, and for the card that a click shows."""
    from bench.measure.measure import attention_by_distance  # loads torch

    name = row["encoding"]
    about, cls = {"idea": fact(name, "gloss")}, built_in(name)
    about |= {"formula": cls.info.formula, "beyond L": cls.info.past} if cls else {}
    about |= {"fails within L": row["fails_within"], "paper": f"{printable(row['title'])}, {row['year']}"}
    about |= {title: fact(name, field) for field, title in FACTS.items()} | {"our code": source_file(name)}
    about |= {"family": FAMILIES.get(row["family"], row["family"]), "compared with": SOURCES.get(row["source"], row["source"])}
    about |= {"length settings": row["lengths"]}
    return {
        "score": row["score"],
        "step_time": row["step_time"],
        "text": row["text"],
        "link": safe_link(str(row["link"])),
        "colour": colour(name),
        "about": {key: text for key, text in about.items() if text},
        "attention": attention_by_distance(cls) if cls else None,
    }
