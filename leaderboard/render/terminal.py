"""Boards and comparisons as text for a terminal of any width."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

import tasks
from leaderboard.export import plain
from leaderboard.results.facts import class_title
from leaderboard.stats.ranks import ALPHA, EQUAL
from leaderboard.stats.rows import LOCAL, Board
from tasks import InputError, plural, unknown

from .columns import SIGNS, TERMINAL, Column, columns_of, number, rows_of, shown, signs, span
from .pages import verdict_text
from .text import printable

GAP = 2
"""Blanks between columns."""
FIRST = ("encoding", "score", "rank_low", "low")
"""Columns that stay the longest in a narrow terminal."""


def print_board(board: Board, status: str, console: Console) -> None:
    """Print a board, as wide as the console: tables, then the columns that are hidden, then the verdict.

    Arguments:
        status: the command that shows the state of its runs.
    """
    complete = board.rows[board.rows["complete"]]
    rows = complete if len(complete) else board.rows
    low, high = int(rows["blocks"].min()), int(rows["blocks"].max())
    seeds = plural(high, "seed") if low == high else f"{low} to {plural(high, 'seed')}"
    counts = f"{plural(len(board.rows), 'encoding')}, {plural(len(board.tasks), 'task')}, {seeds}"
    parts: list[Text | Table] = [Text(f"Suite {printable(board.suite)}, version {board.version}: {counts}", style="bold")]
    columns = shown(board.tasks, TERMINAL, rows)
    fitting = fit(columns, rows, console.width)
    for kind, group in rows.groupby("ranking", sort=False):
        parts += [Text(f"\n{class_title(str(kind))}", style="bold"), table_of(fitting, group)]
    hidden = [column.title for column in columns if column not in fitting]
    notes = [f"\nHidden columns: {', '.join([*hidden, 'details'])}; --json and --html show all."]
    names = "".join(map(signs, rows_of(rows)))
    notes += [f"{sign} {meaning}" for sign, meaning in SIGNS.items() if sign in names]
    if board.left_out:
        notes.append(f"Not shown: {plural(board.left_out, 'run')} of another fingerprint, or at a rate that few runs have")
    if incomplete := [printable(name) for name in board.rows[~board.rows["complete"]]["encoding"]]:
        notes.append(f"Encodings that lack a task or a learning rate: {', '.join(incomplete)}. See {status}")
    parts += [*(Text(note, style="dim") for note in notes), Text("\n" + verdict_text(board))]
    console.print(*parts, sep="\n", highlight=False, markup=False, emoji=False)


def fit(columns: Sequence[Column], rows: pd.DataFrame, width: int) -> list[Column]:
    """The columns that fit into the width, the most important ones first, and at least two."""
    every = rows_of(rows)
    left, chosen = width + GAP, list[Column]()
    for column in sorted(columns, key=lambda column: [*FIRST, column.key].index(column.key)):
        left -= GAP + max(len(text) for text in [*column.title.split(" "), *map(column.show, every)])
        if left >= 0 or len(chosen) < 2:
            chosen.append(column)
    return [column for column in columns if column in chosen]


def table_of(columns: Sequence[Column], rows: pd.DataFrame) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column in columns:
        justify: Any = "right" if column.numeric else "left"
        table.add_column(Text("\n".join(column.title.split(" "))), justify=justify, vertical="bottom", no_wrap=True)
    for row in rows_of(rows):
        style = "bold" if row["encoding"].endswith(LOCAL) else ""
        table.add_row(*(Text(column.show(row)) for column in columns), style=style)
    return table


def about(board: Board) -> dict[str, Any]:
    return {"suite": board.suite, "version": int(board.version), "fingerprint": board.fingerprint, "tasks": board.tasks}


def board_dict(board: Board) -> dict[str, Any]:
    """The frame of rows as plain data, with the verdict; None for what is not known."""
    return about(board) | {
        "verdict": verdict_text(board),
        "columns": {column.key: column.help for column in columns_of(board.tasks)},
        "rows": plain(board.rows),
    }


def comparison(board: Board, a: str, b: str) -> dict[str, Any]:
    """Two encodings of a board as plain data: their rows, the difference of their scores (a − b), its interval and p.

    Raises:
        InputError: an encoding without results, with the nearest match; or one encoding twice.
    """
    places = {name: n for n, name in enumerate(board.rows["encoding"])}
    for name in (a, b):
        if name not in places:
            raise unknown(f"encoding with results on suite {board.suite}", name, places)
    if a == b:
        raise InputError(f"expected two different encodings, got {a!r} twice")
    pair = places[a], places[b]
    p, difference, half = (float(one[pair]) for one in (board.ps, board.difference, board.half_width))
    ours, theirs = plain(board.rows.iloc[[*pair]])
    return about(board) | {
        "a": ours,
        "b": theirs,
        "difference": difference,
        "half_width": half,
        "p": p,
        "practically_equal": bool(board.equal[pair]),
        "winner": (a if difference > 0 else b) if p <= ALPHA else None,
    }


def winner_text(found: dict[str, Any]) -> str:
    """Who wins, by name."""
    a, b = (printable(found[side]["encoding"]) for side in "ab")
    difference, half, p = found["difference"], found["half_width"], found["p"]
    if not np.isfinite(difference):
        return f"{a} and {b} have no block with all tasks in common: nothing to compare."
    better, worse = (a, b) if difference >= 0 else (b, a)
    lead = f"{better} has the higher score, by {number(abs(difference), 3)}" if round(difference, 3) else "The scores are equal"
    if not np.isfinite(half):
        return f"{lead}; a single seed cannot say more."
    low, high = abs(difference) - half, abs(difference) + half
    size = f" (95 % interval {number(low, 3)} to {number(high, 3)}"
    tested = f", p = {p:.2g})" if np.isfinite(p) else "; they are in different tables, so the difference is not tested)"
    if found["winner"]:
        return f"{better} is significantly better than {worse}, by {number(abs(difference), 3)}{size}{tested}."
    equal = f" They are practically equal: within ±{EQUAL}." if found["practically_equal"] else ""
    return f"Neither is significantly better. {lead}{size}{tested}.{equal}"


def print_comparison(found: dict[str, Any], console: Console) -> None:
    """Print a comparison: who wins, and scores by task."""
    pair = found["a"], found["b"]
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    for row, colour in zip(pair, ("cyan", "magenta"), strict=True):
        table.add_column(Text(printable(row["encoding"], 30), style=colour), justify="right", no_wrap=True)
    keys = {"all": ("score", "low", "high")}
    keys |= {tasks.title(task): (f"score.{task}", f"low.{task}", f"high.{task}") for task in found["tasks"]}
    for title, (score, low, high) in keys.items():
        table.add_row(title, *(f"{number(row[score], 3)}  {span(row[low], row[high])}" for row in pair))
    parts: list[Text | Table] = [Text(winner_text(found), style="bold"), Text("\nScore beyond L, 95 % interval"), table]
    console.print(*parts, sep="\n", highlight=False, markup=False, emoji=False)
