"""The page's table as HTML: readable as it stands; the script sorts, filters and colours it by the numbers behind the cells."""

from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

import tasks

from . import tables
from .grid import Column, Grid
from .markdown import address, printable, share
from .page_data import NAME, Classes, class_title, tidy, views
from .summary import ANCHOR, BASE, Row, Versus
from .tables import ABSENT

YES = "✓"
"""Behind a probability of improvement: the test separates the two."""


class Cell(NamedTuple):
    """One cell of the table."""

    html: str
    """Ready, everything in it escaped."""
    value: float | str | None = None
    """To sort by; None is last, whichever way."""
    css: str = ""
    """Class."""


class Heading(NamedTuple):
    """One column of the table."""

    title: str
    hint: str
    """Said by the pointer and by screen readers."""
    best: str
    """The order that the first click gives: ``ascending`` or ``descending``."""
    cell: Callable[[Row], Cell]
    task: int | None = None
    """Place of the task that the column is for."""
    css: str = ""
    """Class."""


def table(grid: Grid, classes: Classes) -> str:
    """All rows, a ``tbody`` for each ranking class; ``data-row`` is a row's place in the script's data."""
    columns = headings(grid)
    head = "".join(header(column) for column in columns)
    parts, place = [f"<thead><tr>{head}</tr></thead>"], 0
    for name, rows in classes.items():
        title = escape(class_title(name))
        lines = [f'<tr class="class"><th scope="rowgroup" colspan="{len(columns)}"><span>{title}</span></th></tr>']
        for row in rows:
            lines.append(
                f'<tr data-row="{place}">' + "".join(body(i, column.cell(row)) for i, column in enumerate(columns)) + "</tr>"
            )
            place += 1
        parts.append("<tbody>" + "\n".join(lines) + "</tbody>")
    caption = f"Encodings on suite {escape(printable(grid.name))}, best first within each ranking class"
    return f"<table><caption>{caption}</caption>" + "\n".join(parts) + "</table>"


def header(column: Heading) -> str:
    task = f' data-task="{column.task}"' if column.task is not None else ""
    task += f' class="{column.css}"' if column.css else ""
    return f'<th scope="col" data-first="{column.best}"{task} title="{escape(column.hint)}">{escape(column.title)}</th>'


def body(place: int, cell: Cell) -> str:
    value = "" if cell.value is None else f' data-value="{escape(str(cell.value))}"'
    css = f' class="{cell.css}"' if cell.css else ""
    return f'<th scope="row"{value}{css}>{cell.html}</th>' if place == 1 else f"<td{value}{css}>{cell.html}</td>"


def headings(grid: Grid) -> list[Heading]:
    """The columns, from left to right."""
    up, down = "ascending", "descending"
    return [
        Heading("rank", "Shared only by rows that no test separates; see places", up, rank),
        Heading(
            "encoding",
            "Name of the positional encoding",
            up,
            # Where there is little room a name is broken before what it wraps.
            lambda row: Cell(escape(printable(row.name, NAME)).replace("(", "(<wbr>"), printable(row.name, NAME).casefold()),
        ),
        Heading("IQM", "Interquartile mean of the chance-corrected accuracy past L, with its 95 % interval", down, iqm),
        Heading("places", "Places in its table that the tests leave open", up, places),
        *(task(column, place) for place, column in enumerate(grid.columns)),
        Heading("l ≤ L", "In distribution: exact match at lengths up to L, mean over tasks", down, in_distribution),
        Heading(
            "seeds",
            "Runs on each task",
            down,
            lambda row: Cell(escape(tables.seeds(row)), min(len(c.runs) for c in row.cells.values())),
        ),
        Heading("family", "What kind of encoding it is", up, family, css="left"),
        Heading("mean", "Mean over tasks of the chance-corrected accuracy past L", down, lambda row: number(row.score, "mean")),
        Heading("gap", "Optimality gap: what the mean lacks to 1", up, lambda row: number(row.gap)),
        Heading(
            "beats next",
            f"Probability that a run of it beats one of the row below; {YES} separated",
            down,
            lambda row: versus(row.below),
        ),
        Heading(
            f"beats {ANCHOR}",
            f"Probability that a run of it beats one of {ANCHOR}; {YES} separated",
            down,
            lambda row: versus(row.against),
        ),
        Heading(
            "parameters",
            "Of the encoding alone",
            up,
            lambda row: Cell(tables.parameters(row), row.parameters and row.parameters[0]),
        ),
        Heading(
            f"step × {BASE}",
            f"Time of a training step relative to {BASE}'s",
            up,
            lambda row: Cell(tables.step_time(row), row.step_time and tidy(row.step_time)),
        ),
        Heading(
            f"memory × {BASE}",
            f"Peak memory of a training step past L relative to {BASE}'s",
            up,
            lambda row: Cell(tables.memory(row), row.memory and tidy(row.memory)),
        ),
        Heading("paper", "Year; leads to the paper", down, paper),
    ]


def task(column: Column, place: int) -> Heading:
    known = tasks.catalogue().get(column.task)
    name = known.title.lower() if known else printable(column.task)
    hint = f"{name}: exact match averaged over test lengths past L = {column.train_length}, mean over seeds"

    def cell(row: Row) -> Cell:
        text, *value = views(row.cells[column.task], row)[0]
        return Cell(escape(str(text)), value[0] if value else None, "task" if value else "task none")

    return Heading(name, hint, "descending", cell, place)


def rank(row: Row) -> Cell:
    return Cell(str(row.rank) if row.rank else ABSENT, row.rank)


def family(row: Row) -> Cell:
    text = printable(row.record.family) if row.record else ABSENT
    return Cell(escape(text), text, "left")


def iqm(row: Row) -> Cell:
    """The number, its interval, and both as a bar."""
    if row.iqm is None:
        return Cell("incomplete")
    low, high = row.iqm_interval or (row.iqm, row.iqm)
    place = f"--at:{tidy(row.iqm)};--low:{tidy(low)};--high:{tidy(high)}"
    ends = f" <small>[{share(low)}, {share(high)}]</small>" if row.iqm_interval else ""
    return Cell(f'<b>{share(row.iqm)}</b>{ends}<span class="bar" style="{place}"></span>', tidy(row.iqm), "iqm")


def in_distribution(row: Row) -> Cell:
    return Cell(
        tables.gated(row.in_distribution, row.flagged), None if row.in_distribution is None else tidy(row.in_distribution)
    )


def number(value: float | None, css: str = "") -> Cell:
    return Cell(ABSENT) if value is None else Cell(share(value), tidy(value), css)


def places(row: Row) -> Cell:
    if row.places is None:
        return Cell(ABSENT)
    return Cell(tables.places(row), row.places[0] + row.places[1] / 1e6)


def versus(found: Versus | None) -> Cell:
    if found is None:
        return Cell(ABSENT)
    ends = f" <small>[{share(found.interval[0])}, {share(found.interval[1])}]</small>" if found.interval else ""
    return Cell(share(found.improvement) + ends + (f" {YES}" if found.separated else ""), tidy(found.improvement))


def paper(row: Row) -> Cell:
    if row.record is None:
        return Cell(ABSENT)
    year, found = str(row.record.year), address(row.record.link)
    title = escape(printable(row.record.title, 300))
    return Cell(f'<a href="{found}" title="{title}" rel="noreferrer">{year}</a>' if found else year, row.record.year)


def families(rows: Sequence[Row]) -> list[str]:
    """Of all rows, each once, by name."""
    return sorted({printable(row.record.family) for row in rows if row.record})
