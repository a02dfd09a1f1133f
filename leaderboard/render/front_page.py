"""The published board, ``README.md`` of its folder: one section per suite, first the short tables, then all details."""

from collections.abc import Mapping, Sequence
from importlib import resources

from leaderboard import ARCHIVE
from leaderboard.data.file_names import IMAGES
from leaderboard.data.grid import Grid
from leaderboard.stats.summary import Row

from . import columns, tables
from .board import BoardSection, detail_sections, main_sections
from .columns import TableColumn
from .encoding_pages import page_path
from .explanation import ABOUT, EXPLANATION, OTHER_VERSION, TITLE, experiment_setup
from .markdown import REFERABLE, code, escape, heading_anchor, reference_link
from .tables import Classes

README = "README.md"

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
    below = detail_sections(grid, classes[0], section)
    for other, found in zip(others, classes[1:], strict=True):
        below.append(section.heading(f"Older version {other.version}, fingerprint {code(other.fingerprint)}"))
        below += [
            OTHER_VERSION,
            *(tables.short_table(other, rows, PAGE_LINK) for rows in found.values()),
            experiment_setup(other),
        ]
    parts = [f"## {suite_heading(grid.name)}"]
    if grid.suite:
        parts.append(escape(grid.suite.about, 1000))
    parts += [*main_sections(grid, classes[0], section), table_of_contents(below, section), experiment_setup(grid)]
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


def page_link(row: Row) -> str:
    """The encoding's name, linked to its page if it has runs and therefore a page."""
    if row.record is None:
        return escape(row.name)
    return reference_link(row.name) if REFERABLE.fullmatch(row.name) else f"[{escape(row.name)}]({page_path(row.name)})"


PAGE_LINK: TableColumn = columns.encoding_column(page_link)


def page_definitions(rows: Sequence[Row]) -> list[str]:
    """The link definitions that ``page_link`` relies on, by name."""
    names = {row.name for row in rows if row.record and REFERABLE.fullmatch(row.name)}
    return [f"[{name}]: {page_path(name)}" for name in sorted(names)]


def table_of_contents(parts: Sequence[str], section: BoardSection) -> str:
    """One line of links to the headings one level below the section's own."""
    mark = "#" * (section.level + 1) + " "
    headings = [part.removeprefix(mark) for part in parts if part.startswith(mark)]
    return "Below: " + " · ".join(f"[{text.removesuffix(section.suffix)}](#{heading_anchor(text)})" for text in headings)
