"""The published board, ``README.md`` of its folder: a section a suite, what decides first, and everything else below it."""

import html
import re
from collections.abc import Mapping, Sequence
from importlib import resources

import tasks

from . import encoding_pages as pages
from . import tables
from .board import HEADINGS, Place, details, measured, overview, ranking
from .explanation import EXPLANATION
from .grid import Grid
from .markdown import REFERABLE, code, escape, reference, share, table
from .summary import BASE, Row

README = "README.md"
Classes = dict[str, list[Row]]
"""Ranking class → its rows, as ``summarise`` gives them."""

ABOUT = """\
Transformers trained from scratch at lengths up to L and tested on lengths up to L′; from row to row nothing changes but the
positional encoding. **IQM** sums a row up: the middle half of its runs' accuracy past L, with guessing taken out; 1 is perfect
at every length, 0 is guessing. Task columns are plain accuracy past L, and l ≤ L that at the lengths of training. No test tells
rows of one rank apart; those of different ranks it need not tell apart either: **places** are all that it leaves open to a row.
A name leads to a page with curves, every number by length and seed, the runs behind them and the command that makes them
again."""

SOURCES = """\
- **Every number** comes from the runs in [results](results), one line each. `lprime board --check` renders this page and all
  others from them and fails where a byte differs.
- **To sort, filter and compare**: `lprime board --html page --published` makes one page of all this, which needs no network.
- **To make a number again**: the page of its encoding ends with the command, such as
  `lprime run small --encoding rope --task copying --seed 0 --out again`."""


def render(suites: Mapping[str, Sequence[Grid]], classes: Mapping[str, Sequence[Classes]], known: Sequence[str] = ()) -> str:
    """The whole file.

    Arguments:
        suites: suite → its versions, newest first, as ``store.grids`` gives them.
        classes: the same, summarised.
        known: encodings that a reader may look for.
    """
    parts = ["# Who carries furthest past the training length", ABOUT]
    names = [f"[{name}](#{slug(title(name))})" for name in suites]
    if len(names) > 1:
        parts.append(f"Suites: {' · '.join(names)}. Numbers of two suites do not compare.")
    for name, versions in suites.items():
        parts += section(versions, classes[name], known)
    parts += ["## How to read this", f"{EXPLANATION}\n{SOURCES}"]
    parts.append(
        "\n".join(definitions([row for found in classes.values() for c in found for rows in c.values() for row in rows]))
    )
    return "\n\n".join(parts).rstrip() + "\n"


def section(versions: Sequence[Grid], classes: Sequence[Classes], known: Sequence[str] = ()) -> list[str]:
    """One suite: its newest version whole, the older ones as a table each."""
    grid, *others = versions
    place = Place(2, f"pictures/{grid.name}/", f", {grid.name}", named)
    below = [place.heading("Overall in full"), *ranking(grid, classes[0], place), *details(grid, classes[0], place)]
    for other, found in zip(others, classes[1:], strict=True):
        below.append(place.heading(f"Older version {other.version}, fingerprint {code(other.fingerprint)}"))
        below.append("Made with another version of suite or harness; these numbers do not compare with those above.")
        below += [*(text for group in found.values() for text in [compact(other, group)]), measured(other)]
    parts = [f"## {title(grid.name)}"]
    if grid.suite:
        parts.append(escape(grid.suite.about, 1000))
    for name, group in classes[0].items():
        if len(classes[0]) > 1:
            parts.append(
                f"**{HEADINGS.get(name, name.capitalize())}**" if name in HEADINGS else f"**{escape(name.capitalize())}**"
            )
        parts.append(compact(grid, group))
    parts += [*overview(grid, classes[0], place), contents(below, place), measured(grid), *recipe(grid)]
    if waiting := sorted(set(known) - {encoding for _, encoding in grid.runs}):
        parts.append(f"Built in, and not run here yet: {', '.join(map(escape, waiting))}.")
    return [*parts, *below]


def recipe(grid: Grid) -> list[str]:
    """Where a built-in suite is written down, and how it was found."""
    if grid.suite is None or not resources.files("bench.suites").joinpath(f"{grid.name}.yaml").is_file():
        return []
    at = "../bench/suites"
    return [f"Tasks, model and recipe: [{grid.name}.yaml]({at}/{grid.name}.yaml). [How they were found]({at}/CALIBRATION.md)."]


def title(name: str) -> str:
    return f"Suite {escape(name)}"


def compact(grid: Grid, rows: Sequence[Row]) -> str:
    """The table to begin with: as narrow as a code host's page, best first. Seeds have a column only where some are lacking."""
    lacking = any(len(cell.runs) < cell.asked for row in rows for cell in row.cells.values())
    tested = any(row.places for row in rows)
    header = ["rank", *(["places"] if tested else []), "encoding", "IQM"]
    header += [*(heading(c.task) for c in grid.columns), "l ≤ L", f"step × {BASE}"]
    body = []
    for row in rows:
        cells = [row.cells[c.task] for c in grid.columns]
        body.append([str(row.rank) if row.rank else tables.ABSENT, *([tables.places(row)] if tested else [])])
        body[-1] += [named(row), together(tables.iqm(row))]
        body[-1] += [share(cell.ood[0]) if cell.ood else cell.state for cell in cells]
        body[-1] += [together(tables.gated(row.in_distribution, row.flagged)), together(tables.step_time(row))]
        body[-1] += [together(tables.seeds(row))] if lacking else []
    return table([*header, "seeds"] if lacking else header, body, left=2 + tested)


def heading(task: str) -> str:
    """A task's name as a column's: may be broken where it has several words."""
    known = tasks.catalogue().get(task)
    return escape(known.title.lower() if known else task)


def together(text: str) -> str:
    """A cell that is not broken into two lines."""
    return text.replace(" ", "\u00a0")


def named(row: Row) -> str:
    """The encoding's name, linked to its page; only the name where it has no run, and so no page."""
    if row.record is None:
        return escape(row.name)
    if REFERABLE.fullmatch(row.name):
        return reference(row.name)
    return f"[{escape(row.name)}]({pages.address(row.name)})"


def definitions(rows: Sequence[Row]) -> list[str]:
    """What ``named`` refers to, by name."""
    found = {row.name for row in rows if row.record and REFERABLE.fullmatch(row.name)}
    return [f"[{name}]: {pages.address(name)}" for name in sorted(found)]


def contents(parts: Sequence[str], place: Place) -> str:
    """One line of links to the headings one level below a section's own."""
    mark = "#" * (place.level + 1) + " "
    headings = [part.removeprefix(mark) for part in parts if part.startswith(mark)]
    return "Below: " + " · ".join(f"[{text.removesuffix(place.label)}](#{slug(text)})" for text in headings)


def slug(heading: str) -> str:
    """A heading's anchor on GitHub: lower case, blanks to hyphens, no punctuation."""
    return re.sub(r"[^\w\- ]", "", html.unescape(heading).lower()).replace(" ", "-")
