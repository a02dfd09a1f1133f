"""The published board, ``README.md`` of its folder: one section per suite, first the short tables, then all details."""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources

from bench.result import SOURCE_MEANINGS
from leaderboard import ARCHIVE
from leaderboard.data.file_names import IMAGES
from leaderboard.data.grid import Grid
from leaderboard.format import SECOND_HAND, ranking_title, share
from leaderboard.stats.summary import Row

from . import columns
from .board import BoardSection, detail_sections, overview_figure, ranking_tables
from .columns import TableColumn, task_column
from .encoding_pages import page_path
from .explanation import ABOUT, EXPLANATION, OTHER_VERSION, TITLE, experiment_setup
from .markdown import REFERABLE, code, escape, markdown_table, reference_link
from .tables import Classes
from .task_metrics import OOD

README = "README.md"

FULL = "Overall in full"
LINKS = """\
Each name links to a page with curves, all numbers by length and seed, the runs behind them and the command to reproduce one."""

SOURCES = """\
- **Every number** comes from the runs in [results](results), one line each. `lprime board --check` renders this page and all
  others from them and fails if a byte differs.
- **To sort, filter and compare**: `lprime board --html page --published` writes all this as one HTML page that works
  offline.
- **To reproduce a number**: the page of its encoding ends with the command, such as
  `lprime run small --encoding rope --task copying --seed 0 --out again`."""


def render_front_page(
    suites: Mapping[str, Sequence[Grid]],
    classes: Mapping[str, Sequence[Classes]],
    built_in: Sequence[str] = (),
    archived: Sequence[str] = (),
) -> str:
    """The whole file.

    Arguments:
        suites: suite → its versions, newest first, as ``store.published_grids`` returns them.
        classes: the same, summarised.
        built_in: encodings that a reader may look for.
        archived: see ``archive_line``.
    """
    parts = [f"# {TITLE}", f"{ABOUT}\n{LINKS}", archive_line(archived)]
    if not suites:
        parts.append("No results yet: `lprime run small` makes runs, and `lprime publish small` adds them here.")
    if len(suites) > 1:
        links = [f"[{name}](#{heading_anchor(suite_heading(name))})" for name in suites]
        parts.append(f"Suites: {' · '.join(links)}. Numbers of different suites do not compare.")
    for name, versions in suites.items():
        parts += suite_section(versions, classes[name], built_in)
    parts += ["## How to read this", f"{EXPLANATION}\n{SOURCES}"]
    rows = [row for versions in classes.values() for found in versions for group in found.values() for row in group]
    parts.append("\n".join(page_definitions(rows)))
    return "\n\n".join(filter(None, parts)).rstrip() + "\n"


def archive_line(archived: Sequence[str]) -> str:
    """Links to the archived boards of earlier versions: folders of ``leaderboard.ARCHIVE``; empty without any."""
    links = " · ".join(f"[{name}](../{ARCHIVE.name}/{name}/{README})" for name in archived)
    return f"Boards of earlier versions, whose numbers do not compare with these: {links}." if links else ""


def suite_section(versions: Sequence[Grid], classes: Sequence[Classes], built_in: Sequence[str] = ()) -> list[str]:
    """One suite: its newest version in full, the older ones as a table each."""
    grid, *others = versions
    section = BoardSection(2, f"{IMAGES}/{grid.name}/", f", {grid.name}", PAGE_LINK)
    below = [section.heading(FULL), *ranking_tables(grid, classes[0], section)]
    below += detail_sections(grid, classes[0], section)
    for other, found in zip(others, classes[1:], strict=True):
        below.append(section.heading(f"Older version {other.version}, fingerprint {code(other.fingerprint)}"))
        below += [OTHER_VERSION, *(short_table(other, rows) for rows in found.values()), experiment_setup(other)]
    parts = [f"## {suite_heading(grid.name)}"]
    if grid.suite:
        parts.append(escape(grid.suite.about, 1000))
    for name, rows in classes[0].items():
        parts += [f"**{escape(ranking_title(name))}**"] if len(classes[0]) > 1 else []
        parts += [short_table(grid, rows), second_hand_note(rows, section)]
    parts += [overview_figure(grid, classes[0], section), table_of_contents(below, section), experiment_setup(grid)]
    parts.append(recipe_links(grid))
    if not_run := sorted(set(built_in) - {encoding for _, encoding in grid.runs}):
        parts.append(f"Built in, not yet run here: {', '.join(map(escape, not_run))}.")
    return [*filter(None, parts), *below]


def recipe_links(grid: Grid) -> str:
    """Links to a built-in suite's file and to how its settings were chosen."""
    if grid.suite is None or not resources.files("bench.suites").joinpath(f"{grid.name}.yaml").is_file():
        return ""
    folder = "../../bench/suites"
    return (
        f"Tasks, model and recipe: [{grid.name}.yaml]({folder}/{grid.name}.yaml). "
        f"[How they were chosen]({folder}/CALIBRATION.md)."
    )


def suite_heading(name: str) -> str:
    return f"Suite {escape(name)}"


def short_table(grid: Grid, rows: Sequence[Row]) -> str:
    """A table narrow enough for GitHub, best first. Rank ranges and seeds have a column only where they inform."""
    tested = any(row.places for row in rows)
    incomplete = any(len(cell.runs) < cell.asked for row in rows for cell in row.cells.values())
    mean = replace(OOD, of_runs=lambda cell, row: share(cell.ood[0]) if cell.ood else cell.state)
    shown = [columns.RANK, *([columns.RANK_RANGE] if tested else []), MARKED_LINK, columns.IQM]
    shown += [task_column(c, mean) for c in grid.columns]
    shown += [columns.IN_DISTRIBUTION_MEAN, columns.STEP_TIME, *([columns.SEEDS] if incomplete else [])]
    body = [[c.as_markdown(row) if c is MARKED_LINK else unbroken(c.as_markdown(row)) for c in shown] for row in rows]
    return markdown_table([c.narrow_title for c in shown], body, left=2 + tested)


def second_hand_note(rows: Sequence[Row], section: BoardSection) -> str:
    """The footnote of a table's mark of second-hand rows; empty where it has none."""
    if not any(is_second_hand(row) for row in rows):
        return ""
    full = heading_anchor(FULL + section.suffix)
    return f"{SECOND_HAND} Second-hand: {SOURCE_MEANINGS['second-hand']}. [{FULL}](#{full}) shows the source of every row."


def is_second_hand(row: Row) -> bool:
    return row.record is not None and row.record.source == "second-hand"


def unbroken(text: str) -> str:
    """The text with no-break spaces, so that a cell stays on one line."""
    return text.replace(" ", "\u00a0")


def page_link(row: Row) -> str:
    """The encoding's name, linked to its page if it has runs and therefore a page."""
    if row.record is None:
        return escape(row.name)
    return reference_link(row.name) if REFERABLE.fullmatch(row.name) else f"[{escape(row.name)}]({page_path(row.name)})"


PAGE_LINK: TableColumn = columns.encoding_column(page_link)
MARKED_LINK: TableColumn = columns.encoding_column(
    lambda row: page_link(row) + (f"\u00a0{SECOND_HAND}" if is_second_hand(row) else "")
)
"""The same, marked if the row's source is second-hand."""


def page_definitions(rows: Sequence[Row]) -> list[str]:
    """The link definitions that ``page_link`` relies on, by name."""
    names = {row.name for row in rows if row.record and REFERABLE.fullmatch(row.name)}
    return [f"[{name}]: {page_path(name)}" for name in sorted(names)]


def table_of_contents(parts: Sequence[str], section: BoardSection) -> str:
    """One line of links to the headings one level below the section's own."""
    mark = "#" * (section.level + 1) + " "
    headings = [part.removeprefix(mark) for part in parts if part.startswith(mark)]
    return "Below: " + " · ".join(f"[{text.removesuffix(section.suffix)}](#{heading_anchor(text)})" for text in headings)


def heading_anchor(heading: str) -> str:
    """A heading's anchor on GitHub: lower case, blanks to hyphens, no punctuation."""
    return re.sub(r"[^\w\- ]", "", html.unescape(heading).lower()).replace(" ", "-")
