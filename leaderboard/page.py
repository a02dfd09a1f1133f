"""The page: all results in one HTML file that asks nothing of the network. Its parts stand in ``web``.

Whatever comes from results reaches it in two ways only: escaped, in tables and lists that can be read without any script, and
as JSON that the script writes out as text. A content security policy lets the page's own two scripts run, no other, and forbids
every request.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path

from bench.files import write_atomic
from tasks import InputError

from . import page_data, page_table, tables
from .board import measured
from .explanation import EXPLANATION
from .grid import Grid
from .markdown import printable
from .page_data import Classes
from .summary import summarise
from .theme import DARK, LIGHT, Theme

ABOUT = """\
Transformers trained from scratch at lengths up to L and tested on lengths up to L′; from row to row nothing changes but the
positional encoding. **IQM** sums a row up: the middle half of its runs' accuracy past L, with guessing taken out; 1 is perfect
at every length, 0 is guessing. Task columns are plain accuracy past L, and l ≤ L that at the lengths of training. No test tells
rows of one rank apart; those of different ranks it need not tell apart either: **places** are all that it leaves open to a
row."""

PAGE = "index.html"
GENERATOR = "lprime board"
"""Tells a page of ours from any other."""
LIBRARY = "vendor/chart.umd"
SCRIPTS = ("core.js", "table.js", "frame.js", "names.js", "curves.js", "chosen.js", "main.js")
"""Parts of the script, in order."""


def write(suites: Mapping[str, Sequence[Grid]], folder: Path, classes: Mapping[str, Sequence[Classes]] | None = None) -> Path:
    """Write ``<folder>/index.html``.

    Arguments:
        suites: suite → its versions, newest first, as ``collect`` and ``store.grids`` give them.
        classes: the same summarised, if that was done already.

    Returns:
        The path of the page.

    Raises:
        InputError: the place cannot be written, or holds an ``index.html`` of something else.
    """
    path = Path(folder) / PAGE
    if path.parent.exists() and not path.parent.is_dir():
        raise InputError(f"{path.parent} is a file; expected a folder for {PAGE}")
    try:
        other = path.exists() and f'content="{GENERATOR}"' not in path.read_text(encoding="utf-8", errors="replace")[:2000]
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    if other:
        raise InputError(f"{path} is not a page of lprime; expected a folder without one, or with one that lprime wrote")
    write_atomic(path, render(suites, classes))
    return path


def render(suites: Mapping[str, Sequence[Grid]], classes: Mapping[str, Sequence[Classes]] | None = None) -> str:
    """The page's HTML. The same results give the same bytes."""
    if classes is None:
        classes = {name: [summarise(grid) for grid in versions] for name, versions in suites.items()}
    boards = [pair for name, versions in suites.items() for pair in zip(versions, classes[name], strict=True)]
    rows = [row for _, found in boards for row in page_data.in_order(found)]
    data = {"boards": [page_data.board(*pair) for pair in boards]} | page_data.limits()
    library, script = vendored(), "".join(["(() => {\n'use strict';\n", *map(part, SCRIPTS), "})();\n"])
    options = "".join(f'<option value="{i}">{title(grid, boards)}</option>' for i, (grid, _) in enumerate(boards))
    return filled(
        part("index.html"),
        {
            "generator": GENERATOR,
            "policy": policy(library, script),
            "style": colours() + part("style.css"),
            "about": markdown(ABOUT.replace("\n", " ")),
            "suites": options,
            "families": "".join(f"<option>{escape(name)}</option>" for name in page_table.families(rows)),
            "views": "".join(f"<option>{escape(name)}</option>" for name in page_data.VIEWS.values()),
            "boards": "\n".join(section(i, title(grid, boards), grid, found) for i, (grid, found) in enumerate(boards)),
            "explanation": markdown(EXPLANATION),
            "data": embedded(data),
            "library": library,
            "script": script,
        },
    )


def section(place: int, heading: str, grid: Grid, classes: Classes) -> str:
    """One version of a suite, without script: what was measured, the table, and what went wrong."""
    rows = page_data.in_order(classes)
    unfinished, cautions = tables.unfinished(grid, rows), tables.cautions(grid, rows)
    about = f"<p>{escape(printable(grid.suite.about, 1000))}</p>" if grid.suite else ""
    parts = [f'<section class="board" data-board="{place}"><h2>{heading}</h2>{about}']
    table = page_table.table(grid, classes)
    parts.append(f'<div class="scroll" role="region" tabindex="0" aria-label="Table of {heading}">{table}</div>')
    parts.append(f'<div class="measured">{markdown(measured(grid))}</div>')
    parts.append(
        folded(f"Failed, diverged and missing runs ({len(unfinished)})", unfinished) if unfinished else "<p>No run failed.</p>"
    )
    parts.append(folded(f"Cautions ({len(cautions)})", cautions) if cautions else "")
    return "\n".join(parts) + "</section>"


def folded(heading: str, lines: Sequence[str]) -> str:
    return f"<details><summary>{heading}</summary>{markdown(chr(10).join(lines))}</details>"


def title(grid: Grid, boards: Sequence[tuple[Grid, Classes]]) -> str:
    """Of a version of a suite; its number and fingerprint stand there where there are several."""
    name = f"Suite {escape(printable(grid.name))}"
    if sum(other.name == grid.name for other, _ in boards) == 1:
        return name
    return f"{name}, version {grid.version} ({escape(printable(grid.fingerprint))})"


def markdown(text: str) -> str:
    """Our own markdown, in which whatever came from results is escaped already, as HTML; raw HTML in it stays text."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).render(text)


def embedded(data: object) -> str:
    """JSON that cannot end the element that it stands in, nor start a comment there."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def part(name: str) -> str:
    return resources.files(__package__).joinpath("web", name).read_text(encoding="utf-8")


def vendored() -> str:
    """The plotting library with its licence, as that asks for; without the address of a source map, which tools would fetch."""
    code = re.sub(r"//# sourceMappingURL=.*\n?", "", part(f"{LIBRARY}.min.js"))
    return f"/*\n{part(f'{LIBRARY}.LICENSE.md').strip()}\n*/\n{code}"


def policy(*scripts: str) -> str:
    """A content security policy under which these scripts run and nothing else does. Styles stay free: bars need them."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    rules = ["default-src 'none'", "script-src " + " ".join(f"'sha256-{value}'" for value in hashes)]
    return "; ".join([*rules, "style-src 'unsafe-inline'", "img-src data:", "base-uri 'none'", "form-action 'none'"])


def colours() -> str:
    """Both looks as CSS: the reader's system decides, unless the page's own switch does."""
    dark = properties(DARK)
    return (
        f":root {{ {properties(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {dark} }} }}\n"
        f":root[data-theme=dark] {{ {dark} }}\n"
    )


def properties(theme: Theme) -> str:
    roles = {name: getattr(theme, name) for name in ("background", "text", "muted", "grid", "grey", "shade")}
    roles |= {f"line-{i}": colour for i, colour in enumerate(theme.colours)} | {"heat": theme.heat[2]}
    return f"color-scheme: {theme.name}; " + " ".join(f"--{role}: {value};" for role, value in roles.items())


def filled(template: str, values: Mapping[str, str]) -> str:
    """Every ``{{name}}`` replaced, once: what is put in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)
