"""All results as one HTML page that needs no network, and a page for each encoding. Templates, style and script are in ``web``.

Text from results enters the page in only two ways: escaped, in tables and lists that can be read without any script, and as
JSON that the script inserts as text. A content security policy allows the page's own two scripts, no other, and no request.
The page is complete without the others, to which it links.
"""

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from bench.files import write_atomic
from bench.measure.card import Card
from leaderboard.data.file_names import PAGES
from leaderboard.data.grid import Grid
from leaderboard.figures.highlight import highlighted
from leaderboard.format import printable
from leaderboard.stats.rows import Classes, all_rows
from leaderboard.stats.summary import summarise, unranked
from tasks import InputError

from . import html_data, html_table, tables
from .answer import answer
from .cautions import caution_lines
from .explanation import ABOUT, EXPLANATION, TITLE, experiment_setup
from .html_encoding import INDEX, page_address, render_html_encoding
from .html_template import GENERATOR, content_security_policy, fill_template, markdown_to_html, page_style, web_file
from .publish import PublishedBoard
from .unverified import unverified_counts

LIBRARY = "vendor/chart.umd"
SCRIPTS = ("theme.js", "core.js", "table.js", "axes.js", "labels.js", "curves.js", "selection.js", "view.js", "main.js")
"""Parts of the script, in order."""


def write_html_page(suites: Mapping[str, list[Grid]], folder: Path, cards: Mapping[str, Card] | None = None) -> Path:
    """Write ``<folder>/index.html``, and ``pages/`` with a page for each encoding.

    Arguments:
        suites: suite → its versions, newest first, as ``collect`` and ``store.published_grids`` return them.
        cards: those of the published board.

    Returns:
        The path of ``index.html``.

    Raises:
        InputError: the file cannot be written, or is a page that lprime did not write; boards rank none of the suites.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; expected a folder for {INDEX}")
    board = PublishedBoard(suites, cards or {})
    if suites and not board.suites:
        raise unranked(next(iter(suites)))
    pages = {
        folder / address: render_html_encoding(encoding, entries, board.cards.get(encoding, Card()))
        for encoding, entries in board.entries.items()
        if (address := page_address(encoding))
    }
    pages[folder / INDEX] = render_html_page(board.suites)  # last: it links to the others
    if foreign := [path for path in pages if path.exists() and not is_ours(path)]:
        raise InputError(f"{foreign[0]} is not a page of lprime; expected a folder without one, or with one that lprime wrote")
    for path, html in pages.items():
        write_atomic(path, html)
    for path in () if (folder / PAGES).is_symlink() else (folder / PAGES).glob("*.html"):
        if path not in pages and is_ours(path):
            path.unlink()  # of an encoding that is no longer shown
    return folder / INDEX


def is_ours(path: Path) -> bool:
    """Whether lprime wrote a page; not if it cannot be read."""
    try:
        return f'content="{GENERATOR}"' in path.read_text(encoding="utf-8", errors="replace")[:2000]
    except OSError:
        return False


def render_html_page(suites: Mapping[str, Sequence[Grid]]) -> str:
    """The page's HTML. The same results give the same bytes.

    Arguments:
        suites: suite → its versions, newest first.
    """
    boards = [(grid, summarise(grid)) for versions in suites.values() for grid in versions]
    rows = [row for _, found in boards for row in all_rows(found)]
    data = {"boards": [html_data.board_data(*pair, highlighted(pair[1])) for pair in boards]} | html_data.page_settings()
    library, script = chart_library(), "".join(["(() => {\n'use strict';\n", *map(web_file, SCRIPTS), "})();\n"])
    titles = [board_title(grid, boards) for grid, _ in boards]
    options = "".join(f'<option value="{i}">{title}</option>' for i, title in enumerate(titles))
    sections = [board_section(i, board_key(pair[0], boards), titles[i], *pair) for i, pair in enumerate(boards)]
    return fill_template(
        web_file("index.html"),
        {
            "title": TITLE,
            "generator": GENERATOR,
            "policy": content_security_policy(library, script),
            "style": page_style(),
            "about": markdown_to_html(ABOUT.replace("\n", " ")),
            "suites": options,
            "families": "".join(f"<option>{escape(name)}</option>" for name in html_table.families(rows)),
            "views": "".join(f"<option>{escape(view.title)}</option>" for view in html_data.VIEWS),
            "boards": "\n".join(sections),
            "explanation": markdown_to_html(EXPLANATION),
            "data": embedded_json(data),
            "library": library,
            "script": script,
        },
    )


def board_section(index: int, key: str, heading: str, grid: Grid, classes: Classes) -> str:
    """One version of a suite, readable without script: the setup, the table, and failed runs."""
    rows = all_rows(classes)
    unfinished, cautions = tables.unfinished_runs(grid, rows), caution_lines(grid, rows)
    about = f"<p>{escape(printable(grid.suite.about, 1000))}</p>" if grid.suite else ""
    about += markdown_to_html(answer(grid, classes))
    parts = [f'<section class="board" data-board="{index}" data-key="{key}"><h2>{heading}</h2>{about}']
    table = html_table.board_table(grid, classes)
    parts.append(f'<div class="scroll" role="region" tabindex="0" aria-label="Table of {heading}">{table}</div>')
    parts.append(f'<div class="setup">{markdown_to_html(experiment_setup(grid))}</div>')
    failed = f"Failed, diverged and missing runs ({len(unfinished)})"
    parts.append(details_element(failed, unfinished) if unfinished else "<p>No run failed.</p>")
    if claimed := unverified_counts(grid):
        parts.append(details_element(f"Unverified, not ranked ({len(claimed)})", claimed))
    notes = tables.training_notes(rows)
    parts.append(details_element(f"Notes on training ({len(notes)})", notes) if notes else "")
    parts.append(details_element(f"Cautions ({len(cautions)})", cautions) if cautions else "")
    return "\n".join(parts) + "</section>"


def details_element(heading: str, lines: Sequence[str]) -> str:
    return f"<details><summary>{heading}</summary>{markdown_to_html(tables.bullets(lines))}</details>"


def board_title(grid: Grid, boards: Sequence[tuple[Grid, Classes]]) -> str:
    """The name of a suite, with version and fingerprint if the page holds several versions of it."""
    name = f"Suite {escape(printable(grid.name))}"
    if sum(other.name == grid.name for other, _ in boards) == 1:
        return name
    return f"{name}, version {grid.version} ({escape(printable(grid.fingerprint))})"


def board_key(grid: Grid, boards: Sequence[tuple[Grid, Classes]]) -> str:
    """How an address names a board: the suite's name, with the fingerprint for all but its newest version."""
    newest = next(other for other, _ in boards if other.name == grid.name)
    return escape(printable(grid.name if grid is newest else f"{grid.name}-{grid.fingerprint}"))


def embedded_json(data: object) -> str:
    """JSON that can neither end the element that holds it nor start a comment."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def chart_library() -> str:
    """Chart.js with its licence, which every copy must contain; without its source map, which developer tools would fetch."""
    code = re.sub(r"//# sourceMappingURL=.*\n?", "", web_file(f"{LIBRARY}.min.js"))
    return f"/*\n{web_file(f'{LIBRARY}.LICENSE.md').strip()}\n*/\n{code}"
