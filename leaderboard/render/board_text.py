"""A board as text for a terminal of any width: the first tables, the answer, and the files with all the rest."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from leaderboard.data.grid import LOCAL, Grid
from leaderboard.format import printable, ranking_title
from leaderboard.stats.rows import Row, all_rows
from leaderboard.stats.summary import summarise
from tasks import plural

from . import columns, tables
from .answer import sentences
from .board import BoardPaths
from .columns import TableColumn
from .explanation import signs

GAP = 2
"""Blanks between columns."""
EXPLAINED = ("Tier", "Reach", "Score", "Signs")
"""Words and signs that are explained below the tables."""


def print_board(grid: Grid, pages: Sequence[Path], status: str, console: Console) -> None:
    """Print a board, as wide as the console.

    Arguments:
        pages: the files written, the front page first.
        status: the command that shows the state of its runs.
    """
    classes = summarise(grid)
    rows = all_rows(classes)
    if not rows:
        text = f"Suite {printable(grid.name)}: no run of version {grid.version} yet; those of other versions are in {pages[1]}"
        console.print(text, highlight=False, markup=False, emoji=False)
        return
    counts = f"{plural(len(rows), 'encoding')}, {plural(len(grid.columns), 'task')}, {plural(len(grid.seeds), 'seed')}"
    parts: list[Text | Table] = [Text(f"Suite {printable(grid.name)}: {counts}", style="bold")]
    for name, group in classes.items():
        parts += [Text(f"\n{ranking_title(name)}", style="bold")] if len(classes) > 1 else []
        parts.append(terminal_table(grid, group, console.width))
    meanings = signs(rows)
    parts.append(Text("\n" + " ".join(f"{word}: {meanings[word]}." for word in EXPLAINED if word in meanings), style="dim"))
    said = sentences(grid, classes, lambda row: printable(row.name), printable)
    answer = [Text.assemble((f"{topic}: ", "bold"), text) for topic, text in said]
    parts += [Text(""), *answer] if answer else []
    if unfinished := len(tables.unfinished_runs(grid, rows)):
        parts.append(Text(f"Failed, diverged or missing runs: {plural(unfinished, 'line')} in {pages[1]}, or {status}"))
    console.print(*parts, sep="\n", highlight=False, markup=False, emoji=False)
    files = [f"{pages[0]}", f"{pages[1]} (all tables and figures)", f"{pages[0].parent / BoardPaths.task_stem}*.md"]
    console.print(Text("\nWritten: " + "\n         ".join(files)), soft_wrap=True)


def board_dict(grid: Grid, pages: Sequence[Path]) -> dict[str, Any]:
    """The board's first tables, its answer and its files as plain data; None for what is not known.

    Arguments:
        pages: see ``print_board``.
    """
    classes = summarise(grid)
    return {
        "suite": grid.name,
        "version": grid.version,
        "fingerprint": grid.fingerprint,
        "tables": {name: [row_dict(row) for row in rows] for name, rows in classes.items()},
        "answer": dict(sentences(grid, classes, lambda row: printable(row.name), printable)) if grid.runs else {},
        "files": [str(page) for page in pages],
    }


def row_dict(row: Row) -> dict[str, Any]:
    return {
        "encoding": row.name,
        "tier": row.tier,
        "places": row.places,
        "score": row.score,
        "interval": row.interval,
        "reach": row.reach and {"at": row.reach.at, "mark": row.reach.mark},
        "tasks": {task: cell.score and cell.score[0] for task, cell in row.cells.items()},
        "learned": not row.flagged,
        "step_time": row.step_time,
    }


def terminal_table(grid: Grid, rows: Sequence[Row], width: int) -> Table:
    """The columns of the first table that fit: names, scores and reaches always, the scores of all tasks or none."""
    found = tables.short_columns(grid, rows)
    wanted = {title: [c for c in found if c.title == title] for title in ("encoding", "score", "reach", "tier")}
    groups = [*wanted.values(), [c for c in found if c.task]]
    groups += [[c] for c in (columns.STEP_TIME, columns.FAMILY) if c in found]
    shown: list[TableColumn] = []
    for i, group in enumerate(groups):
        needed = sum(column_width(column, rows) + GAP for column in [*shown, *group]) - GAP
        shown += group if i < 3 or needed <= width else []
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column in (column for column in found if column in shown):
        left = column.title in ("encoding", "family")
        table.add_column(Text("\n".join(title_lines(column))), justify="left" if left else "right", vertical="bottom")
    for row in rows:
        mine = "bold" if row.name.endswith(LOCAL) else ""
        table.add_row(*(Text(column.text(row)) for column in found if column in shown), style=mine)
    return table


def title_lines(column: TableColumn) -> list[str]:
    """The title, a word per line."""
    return column.narrow_title.split()


def column_width(column: TableColumn, rows: Sequence[Row]) -> int:
    """Width of a column in characters."""
    return max(len(text) for text in [*title_lines(column), *(column.text(row) for row in rows)])
