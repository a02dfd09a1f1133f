"""The interactive page: one folder, no server, no network.

Tables are HTML from the list of columns; a script sorts and draws.
"""

import base64
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import tasks
from bench.files import write_atomic
from leaderboard.export import plain
from leaderboard.figures.style import colour
from leaderboard.results.facts import class_title, fact, family_title
from leaderboard.stats.rows import LOCAL, Board
from leaderboard.stats.scores import curve
from tasks import InputError

from .columns import PAGE, TERMINAL, WEB, Column, shown
from .pages import FACTS, render, verdict_text
from .text import printable, safe_link

WEB_FILES = Path(__file__).parent / "web"
LIBRARY, SCRIPT, STYLE = "vendor/chart.umd.min.js", "page.js", "page.css"
GROUPS = {
    "main": "Scores and cost",
    "limit": "Length limits",
    "within": "Within the training length",
    "token": "Token accuracy",
    "nll": "Loss",
    "details": "Details",
}
"""Group of columns → its title. The first is always shown."""


def write_page(boards: Iterable[Board], folder: Path) -> Path:
    """Write ``index.html`` into a folder, which is created; the file's path.

    Raises:
        InputError: the folder cannot be written, or holds another page.
    """
    path = folder / "index.html"
    if path.exists() and 'content="lprime board"' not in path.read_text(encoding="utf-8", errors="replace"):
        raise InputError(f"{path} was not written by lprime board; choose another folder")
    write_atomic(path, page(boards))
    return path


def page(boards: Iterable[Board]) -> str:
    """The page as HTML."""
    shown_boards = [board_values(board) for board in boards]
    library, script, style = ((WEB_FILES / name).read_text(encoding="utf-8") for name in (LIBRARY, SCRIPT, STYLE))
    data = json.dumps([one["data"] for one in shown_boards], ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return render(
        "page.html.j2",
        boards=shown_boards,
        groups=GROUPS,
        policy=policy(style, library, script),
        data=data.replace("<", "\\u003c"),  # no text from results can end the element
        library=library,
        script=script,
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
    return kind if kind in GROUPS else "main" if {TERMINAL, PAGE} & set(column.views) else "details"


def board_values(board: Board) -> dict[str, Any]:
    """What the template shows of one suite, and the data of its charts."""
    rows = board.rows[board.rows["complete"]] if board.rows["complete"].any() else board.rows
    columns = shown(board.tasks, WEB, rows)
    every = [row for _, row in rows.iterrows()]
    values = plain(rows)
    table = [
        {"row": row, "local": row["encoding"].endswith(LOCAL), "cells": [(c, c.show(row), known[c.key]) for c in columns]}
        for row, known in zip(every, values, strict=True)
    ]
    return {
        "suite": board.suite,
        "version": board.version,
        "verdict": verdict_text(board),
        "columns": [(column, group_of(column)) for column in columns],
        "rows": table,
        "classes": {kind: class_title(kind) for kind in rows["ranking"].unique()},
        "data": {
            "suite": board.suite,
            "tasks": {task: {"title": tasks.title(task)} | task_curves(board, task) for task in board.tasks},
            "rows": {row["encoding"]: row_data(row, board.tasks) for row in values},
        },
    }


def task_curves(board: Board, task: str) -> dict[str, Any]:
    """Chance-corrected exact match by relative length: mean, lowest and highest seed of each encoding."""
    found: dict[str, Any] = {"at": [], "mean": {}, "low": {}, "high": {}}
    for name, runs in board.runs[board.runs["task"] == task].groupby("encoding", observed=True):
        at, values = curve(runs)
        found["at"] = np.round(at, 3).tolist()
        for kind, own in (("mean", values.mean(0)), ("low", values.min(0)), ("high", values.max(0))):
            found[kind][str(name)] = np.round(own, 3).tolist()
    return found


def row_data(row: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """An encoding for the charts, and for the card that a click shows."""
    name = row["encoding"].removesuffix(LOCAL)
    numbers = {key: row[key] for key in ("score", "low", "high", "step_time", *(f"score.{task}" for task in names))}
    facts = {title: fact(name, field) for field, title in FACTS.items()}
    link = safe_link(str(row["link"]))
    about = {"paper": f"{printable(row['title'])}, {row['year']}", "family": family_title(row["family"])}
    about |= facts | {"compared with": row["source"], "length settings": row["lengths"], "fails within L": row["fails_within"]}
    known = {key: text for key, text in about.items() if text}
    return {"numbers": numbers, "link": link, "colour": colour(name), "about": known}
