"""Helpers for tests of what is rendered: grids and rows of made-up runs, and tables read back from markdown."""

import html
import re

from synthetic_results import CURVE, full, only_grid, record, result, rows_by_name, suite

from leaderboard.render import board


def whole_board(grids, note=""):
    """All pages of a board as one text: the front page, all tables, each task."""
    return "\n".join(board.render_board(grids, note).values())


def rows_of(of, runs, failures=None):
    return rows_by_name(only_grid(of, runs, failures))


def table_below(text, heading):
    """The first table below a heading: the header and each row, as lists of cells."""
    lines = text.split(f"\n{heading}\n", 1)[1].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    stop = next((i for i, line in enumerate(lines[start:], start) if not line.startswith("|")), len(lines))
    header, _, *rows = [[plain(cell) for cell in line.strip("|").split("|")] for line in lines[start:stop]]
    return [[html.unescape(cell) for cell in header], *rows]


def plain(cell):
    """A cell without the markup of names and headers: links to ``[name]``, possible breaks, small print, bold."""
    text = re.sub(r"</?(wbr|sub)>", "", cell).replace("\u00a0", " ").replace("**", "").strip()
    return text if re.match(r"\[\d{4}\]", text) else re.sub(r"\]\([^)\s]*\)", "]", text)


def cells(text, heading):
    """The first table below a heading: a dictionary for each row, by the header's cells."""
    header, *rows = table_below(text, heading)
    return [dict(zip(header, row, strict=True)) for row in rows]


def in_full(text):
    """The rows of the tables on all encodings, joined by the encoding's name."""
    found = {}
    for heading in ("## Overall", "## Scores by task", "## Cost", "## Encodings"):
        for row in cells(text, heading) if f"\n{heading}\n" in text else ():
            found.setdefault(row["encoding"].strip("[]"), {}).update(row | {"encoding": row["encoding"].strip("[]")})
    return list(found.values())


def page_runs():
    """Runs of two ranking classes, one of them incomplete, for the HTML page."""
    of = suite()
    runs = full(of, {"nope": CURVE, "rope": (1, 1, 0.75, 0.0625), "alibi": (1, 0.9, 0.9, 0.9)})
    runs += [result(of, "sorting", record("abacus", ranking="task-aware"), 0, (1, 1, 1, 1))]
    return of, runs
