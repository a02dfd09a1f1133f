"""The HTML page's table: readable without script, which sorts, filters and colours it by the values behind the cells."""

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from itertools import count

from leaderboard.data.grid import Grid
from leaderboard.format import family_title, printable, ranking_title
from leaderboard.stats.rows import Classes, Row

from . import columns
from .columns import TableColumn, task_column
from .html_data import rounded, unbroken_interval
from .html_encoding import page_address
from .markdown import web_address
from .task_metrics import SCORE

EXTRA = (
    *(columns.PLACES, columns.SOURCE, columns.SEEDS, columns.IQM, columns.AGAINST_NEXT[0]),
    *(columns.AGAINST_ANCHOR[0], columns.PARAMETERS, columns.MEMORY, columns.PAPER, columns.LENGTHS),
)
"""Columns that the script hides at first: the others fit a window of 1,280 pixels."""
TEXT_COLUMNS = (columns.FAMILY, columns.SOURCE, columns.LENGTHS)
"""Columns aligned to the left."""


def board_columns(grid: Grid) -> list[TableColumn]:
    """The columns, from left to right."""
    score = replace(SCORE, of_runs=lambda cell, row: unbroken_interval(SCORE.of_runs(cell, row)))
    return [
        *(columns.TIER, columns.ENCODING, columns.FAMILY, columns.SCORE, columns.MEAN_REACH),
        *(task_column(column, score) for column in grid.columns),
        *(columns.IN_DISTRIBUTION_MEAN, columns.STEP_TIME, *EXTRA),
    ]


def board_table(grid: Grid, classes: Classes) -> str:
    """All rows, a ``tbody`` for each ranking class; ``data-row`` is a row's index in the script's data."""
    shown, tasks, index = board_columns(grid), count(), count()
    head = "".join(header_cell(column, next(tasks) if column.task else None) for column in shown)
    parts = [f"<thead><tr>{head}</tr></thead>"]
    for name, rows in classes.items():
        title = escape(ranking_title(name))
        lines = [f'<tr class="class"><th scope="rowgroup" colspan="{len(shown)}"><span>{title}</span></th></tr>']
        lines += [f'<tr data-row="{next(index)}">{"".join(body_cell(c, row) for c in shown)}</tr>' for row in rows]
        parts.append("<tbody>" + "\n".join(lines) + "</tbody>")
    caption = f"Encodings on suite {escape(printable(grid.name))}, best first within each ranking class"
    return f"<table><caption>{caption}</caption>" + "\n".join(parts) + "</table>"


def header_cell(column: TableColumn, task: int | None) -> str:
    """A column's heading with its tooltip.

    Arguments:
        task: index of the column's task, if it has one.
    """
    attributes = f' data-task="{task}"' if task is not None else ""
    attributes += ' class="left"' if column in TEXT_COLUMNS else ""
    attributes += " data-extra" if column in EXTRA else ""
    key = re.sub("[^a-z0-9]+", "-", column.narrow_title.lower()).strip("-")
    hint, title = escape(column.hint), escape(column.narrow_title)
    return f'<th scope="col" data-key="{key}" data-first="{column.best}"{attributes} title="{hint}">{title}</th>'


def body_cell(column: TableColumn, row: Row) -> str:
    value = column.value(row)
    attributes = "" if value is None else f' data-value="{escape(str(rounded(value) if isinstance(value, float) else value))}"'
    if column.task:
        attributes += ' class="task"' if value is not None else ' class="task none"'
    elif column in TEXT_COLUMNS:
        attributes += ' class="left"'
    tag, scope = ("th", ' scope="row"') if column is columns.ENCODING else ("td", "")
    return f"<{tag}{scope}{attributes}>{cell_html(column, row)}</{tag}>"


def cell_html(column: TableColumn, row: Row) -> str:
    """What a cell shows; everything in it escaped."""
    text = escape(column.text(row))
    if column is columns.ENCODING:
        name = text.replace("(", "(<wbr>")  # where space is scarce, a name is broken before what it wraps
        address = page_address(row.name) if row.record else None
        return f'<a class="name" href="{address}">{name}</a>' if address else f'<span class="name">{name}</span>'
    if column is columns.PAPER and row.record and (address := web_address(row.record.link)):
        title = escape(printable(row.record.title, 300))
        return f'<a href="{address}" title="{title}" rel="noreferrer">{text}</a>'
    if column is columns.SCORE and row.score is not None:
        low, high = row.interval or (row.score, row.score)
        mean, *interval = small_interval(text).split(" ", 1)
        bar = f"--at:{rounded(row.score)};--low:{rounded(low)};--high:{rounded(high)}"
        return f'<b>{mean}</b>{"".join(" " + part for part in interval)}<span class="bar" style="{bar}"></span>'
    for against, versus in ((columns.AGAINST_NEXT, row.below), (columns.AGAINST_ANCHOR, row.against)):
        if column is against[0] and versus:
            return small_interval(text) + (f" {columns.SEPARATED}" if versus.separated else "")
    return text


def small_interval(text: str) -> str:
    """``.423 [.392, .455]`` with the brackets in small print."""
    number, bracket, interval = text.partition("[")
    return f"{number}<small>{bracket}{interval}</small>" if bracket else text


def families(rows: Sequence[Row]) -> list[str]:
    """The families of all rows, each once, by name."""
    return sorted({family_title(row.record.family) for row in rows if row.record})
