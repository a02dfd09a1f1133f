"""Boards and comparisons as text for a terminal of any width."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

import tasks
from leaderboard.results.facts import class_title
from leaderboard.stats.ranks import ALPHA
from leaderboard.stats.rows import LOCAL, Board
from leaderboard.stats.scores import curve
from tasks import InputError, plural, unknown

from .columns import TERMINAL, Column, columns_of, number, plain_row, shown, span
from .pages import verdict_text
from .text import printable

GAP = 2
"""Blanks between columns."""
COLOURS = ("cyan", "magenta")
"""Of the two encodings of a comparison."""
FIRST = ("encoding", "score", "rank_low", "low")
"""Columns that stay the longest in a narrow terminal."""


def print_board(board: Board, failed: pd.DataFrame, status: str, console: Console) -> None:
    """Print a board, as wide as the console: tables, then the columns that are hidden, then the verdict.

    Arguments:
        failed: failed runs of the suite.
        status: the command that shows the state of its runs.
    """
    counts = f"{plural(len(board.rows), 'encoding')}, {plural(len(board.tasks), 'task')}, {blocks_text(board)}"
    parts: list[Text | Table] = [Text(f"Suite {printable(board.suite)}, version {board.version}: {counts}", style="bold")]
    complete = board.rows[board.rows["complete"]]
    rows = complete if len(complete) else board.rows
    columns = shown(board.tasks, TERMINAL, rows)
    fitting = fit(columns, rows, console.width)
    for kind, group in rows.groupby("ranking", sort=False):
        parts += [Text(f"\n{class_title(str(kind))}", style="bold"), table_of(fitting, group)]
    hidden = [column.title for column in columns if column not in fitting]
    more = len([column for column in columns_of(board.tasks) if TERMINAL not in column.views])
    named = f"{', '.join(hidden)}, and {more} more" if hidden else str(more)
    parts.append(Text(f"\nHidden columns: {named}; --json and --html show all.", style="dim"))
    if any(complete["fails_within"]):
        parts.append(Text("⚑ fails a task even within the training length", style="dim"))
    if any(complete["source"] == "second-hand"):
        parts.append(Text("≈ not checked against the authors' paper or code", style="dim"))
    incomplete = [printable(name) for name in board.rows[~board.rows["complete"]]["encoding"]]
    if len(failed) or incomplete:
        lack = f"encodings that lack a task: {', '.join(incomplete)}" if incomplete else ""
        failures = plural(len(failed), "failed run") if len(failed) else ""
        parts.append(Text(f"{'; '.join(filter(None, (failures, lack)))}. See {status}", style="dim"))
    parts.append(Text("\n" + verdict_text(board)))
    console.print(*parts, sep="\n", highlight=False, markup=False, emoji=False)


def blocks_text(board: Board) -> str:
    """``5 to 10 seeds``."""
    found = board.rows[board.rows["complete"]]["blocks"]
    low, high = (int(found.min()), int(found.max())) if len(found) else (0, len(board.seeds))
    return plural(high, "seed") if low == high else f"{low} to {plural(high, 'seed')}"


def fit(columns: Sequence[Column], rows: pd.DataFrame, width: int) -> list[Column]:
    """The columns that fit into the width, the most important ones first; the scores of all tasks or of none."""
    every = [row for _, row in rows.iterrows()]
    tasks_too = [column for column in columns if column.key.startswith("score.")]
    first = [column for key in FIRST for column in columns if column.key == key]
    rest = [[column] for column in columns if column not in first and column not in tasks_too]
    chosen: list[Column] = first[:2]
    width += GAP
    taken = {column.key: column_width(column, every) + GAP for column in columns}
    for group in [*([column] for column in first[2:]), tasks_too, *rest]:
        needed = sum(taken[column.key] for column in [*chosen, *group])
        chosen += group if needed <= width else []
    return [column for column in columns if column in chosen]


def column_width(column: Column, rows: Sequence[pd.Series]) -> int:
    return max(len(text) for text in [*column.title.split(" "), *map(column.show, rows)])


def table_of(columns: Sequence[Column], rows: pd.DataFrame) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column in columns:
        justify: Any = "right" if column.numeric else "left"
        table.add_column(Text("\n".join(column.title.split(" "))), justify=justify, vertical="bottom", no_wrap=True)
    for _, row in rows.iterrows():
        style = "bold" if row["encoding"].endswith(LOCAL) else ""
        table.add_row(*(Text(column.show(row)) for column in columns), style=style)
    return table


def board_dict(board: Board) -> dict[str, Any]:
    """The frame of rows as plain data, with the verdict; None for what is not known."""
    return {
        "suite": board.suite,
        "version": int(board.version),
        "fingerprint": board.fingerprint,
        "tasks": board.tasks,
        "verdict": verdict_text(board),
        "columns": {column.key: column.help for column in columns_of(board.tasks)},
        "rows": [plain_row(row) for _, row in board.rows.iterrows()],
    }


def comparison(board: Board, a: str, b: str) -> dict[str, Any]:
    """Two encodings of a board as plain data: the difference of their scores (a − b), its interval, p, and each task.

    Raises:
        InputError: an encoding without results, with the nearest match; or one encoding twice.
    """
    rows = {name: n for n, name in enumerate(board.rows["encoding"])}
    for name in (a, b):
        if name not in rows:
            raise unknown(f"encoding with results on suite {board.suite}", name, rows)
    if a == b:
        raise InputError(f"expected two different encodings, got {a!r} twice")
    first, second = rows[a], rows[b]
    p, difference, half = (float(one[first, second]) for one in (board.ps, board.difference, board.half_width))
    ours, theirs = (board.rows.iloc[n] for n in (first, second))
    return {
        "suite": board.suite,
        "version": int(board.version),
        "fingerprint": board.fingerprint,
        "a": plain_row(ours),
        "b": plain_row(theirs),
        "difference": difference,
        "half_width": half,
        "p": p,
        "practically_equal": bool(board.equal[first, second]),
        "winner": (a if difference > 0 else b) if p <= ALPHA else None,
        "tasks": {task: by_length(board, task, (a, b)) for task in board.tasks},
    }


def by_length(board: Board, task: str, names: Sequence[str]) -> dict[str, Any]:
    """Mean chance-corrected exact match of encodings by relative length."""
    runs, found = board.runs[board.runs["task"] == task], {}
    for name in names:
        own = runs[runs["encoding"] == name]
        if len(own):
            at, values = curve(own)
            found[name] = dict(zip(np.round(at, 3).tolist(), np.round(values.mean(0), 4).tolist(), strict=True))
    return found


def winner_text(found: dict[str, Any]) -> str:
    """Who wins, by name."""
    a, b = (printable(found[side]["encoding"]) for side in "ab")
    difference, half, p = found["difference"], found["half_width"], found["p"]
    if not np.isfinite(difference):
        return f"{a} and {b} have no block with all tasks in common: nothing to compare."
    better, worse = (a, b) if difference >= 0 else (b, a)
    if not np.isfinite(half):
        return f"{better} has the higher score by {number(abs(difference))}; a single seed cannot say more."
    low, high = abs(difference) - half, abs(difference) + half
    size = f"by {number(abs(difference))} (95 % interval {low:.3f} to {high:.3f}"
    tested = f", p = {p:.2g})" if np.isfinite(p) else "; they are in different tables, so the difference is not tested)"
    if found["winner"]:
        return f"{better} is significantly better than {worse}, {size}{tested}."
    equal = f" They are practically equal: within ±{0.03}." if found["practically_equal"] else ""
    return f"Neither is significantly better. {better} has the higher score, {size}{tested}.{equal}"


def print_comparison(found: dict[str, Any], console: Console) -> None:
    """Print a comparison: who wins, scores by task, exact match by length."""
    a, b = found["a"], found["b"]
    names = [printable(row["encoding"], 30) for row in (a, b)]
    table = grid_of("", *names)
    for column, colour in zip(table.columns[1:], COLOURS, strict=True):
        column.header_style = colour
    keys = {"all": ("score", "low", "high")}
    keys |= {tasks.title(task): (f"score.{task}", f"low.{task}", f"high.{task}") for task in found["tasks"]}
    for title, (score, low, high) in keys.items():
        cells = [f"{number(row[score])}  {span(row[low], row[high])}" for row in (a, b)]
        table.add_row(title, *cells)
    parts: list[Text | Table] = [Text(winner_text(found), style="bold"), Text("\nScore beyond L, 95 % interval"), table]
    for task, own in found["tasks"].items():
        lengths = sorted({at for curve_of in own.values() for at in curve_of})
        room = max(1, (console.width - 24) // 6)
        step = -(-len(lengths) // room)
        kept = lengths[::-1][::step][::-1]
        grid = grid_of(f"{tasks.title(task)}, × L", *(f"{at:.3g}" for at in kept))
        for name, row in zip(names, (a, b), strict=True):
            values = own.get(row["encoding"], {})
            grid.add_row(Text(name), *(number(values.get(at), 2) for at in kept))
        parts += [Text(""), grid]
    console.print(*parts, sep="\n", highlight=False, markup=False, emoji=False)


def grid_of(first: str, *titles: str) -> Table:
    """An empty table: a column of names, and columns of numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    table.add_column(Text(first), no_wrap=True)
    for title in titles:
        table.add_column(Text(title), justify="right", no_wrap=True)
    return table
