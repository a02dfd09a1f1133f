"""The board of one suite as markdown, with its figures. The same results give the same bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tasks
from bench.files import write_atomic
from bench.result import SOURCE_MEANINGS
from bench.suites.suite import Suite
from leaderboard.data import local_runs
from leaderboard.data.collect import collect, read_results
from leaderboard.data.conditions import with_conditions
from leaderboard.data.grid import Column, Grid
from leaderboard.data.store import RESULTS, read_runs
from leaderboard.figures import board_figures, stretched
from leaderboard.figures.canvas import file_name
from leaderboard.format import SECOND_HAND, ranking_title
from leaderboard.stats.resolution import resolution
from leaderboard.stats.robustness import robustness
from leaderboard.stats.summary import Row, summarise

from . import robustness_text, tables
from .answer import answer
from .columns import TableColumn
from .explanation import EXPLANATION, OTHER_VERSION, experiment_setup
from .markdown import code, escape, heading_anchor, themed_picture
from .tables import Classes

BOARD = "board.md"
FULL = "Overall in full"


def write_board(suite_or_name: Suite | str, out: Path, published: Path | None = None) -> Path:
    """Write ``<out>/<suite>/board.md`` and its figures from the results there.

    Arguments:
        suite_or_name: see ``collect``.
        published: a leaderboard's folder; its results are shown too.

    Returns:
        The path of ``board.md``.

    Raises:
        InputError: no such suite, no results, a broken or contradictory result, or a path that cannot be written.
    """
    grids = (
        collect(suite_or_name, Path(out))
        if published is None
        else local_runs.with_local_runs(suite_or_name, Path(out), published)
    )
    place, read = (Path(out), read_results) if published is None else (published / RESULTS, read_runs)
    grids[0] = with_conditions(grids[0], place, read)
    folder = Path(out) / grids[0].name
    text, drawn = render_board(grids, "" if published is None else local_runs.NOTE), board_figures.draw(grids[0])
    for name, data in drawn.items():
        write_atomic(folder / name, data)
    write_atomic(folder / BOARD, text)  # last, so that it never shows a figure that is not there
    return folder / BOARD


@dataclass(frozen=True)
class BoardSection:
    """How a board fits into its file. By default the board is the whole file, in the folder of its figures."""

    level: int = 1
    """Level of its heading."""
    image_folder: str = ""
    """Relative to the file: empty, or ends in a slash."""
    suffix: str = ""
    """Appended to the headings of lower levels, where several boards share a file."""
    encoding: TableColumn = tables.PAPER_LINK
    """The column of names, with their links."""

    def heading(self, text: str, below: int = 1) -> str:
        """A heading ``below`` levels under the board's own."""
        return f"{'#' * (self.level + below)} {text}{self.suffix}"

    def figure(self, alt: str, stem: str) -> str:
        light, dark = (self.image_folder + file_name(stem, look) for look in ("light", "dark"))
        return themed_picture(alt, light, dark)


def render_board(grids: Sequence[Grid], note: str = "") -> str:
    """The board of the first grid as markdown, with a short section for each other fingerprint.

    Arguments:
        grids: of one suite, as ``collect`` returns them.
        note: a paragraph under the title.
    """
    (grid, classes), *others = ((grid, summarise(grid)) for grid in grids)
    section = BoardSection()
    parts = [f"# {escape(grid.name)}: accuracy beyond the training length", note]
    if grid.suite:
        parts.append(escape(grid.suite.about, 1000))
    if grid.runs or grid.failures:
        parts += [section.heading("Overall"), *main_sections(grid, classes, section), experiment_setup(grid)]
        parts += detail_sections(grid, classes, section)
    else:
        parts += [experiment_setup(grid), "No run of this version yet."]
    rows = [row for group in classes.values() for row in group]
    for other, found in others:
        others_rows = [row for group in found.values() for row in group]
        rows += others_rows
        parts += [section.heading(f"Another version: fingerprint {code(other.fingerprint)}"), OTHER_VERSION]
        parts += [experiment_setup(other), *ranking_tables(other, found, section)]
        parts += [tables.in_distribution_table(other, others_rows), tables.reach_table(other, others_rows)]
    parts += ["## How to read this", EXPLANATION, "\n".join(tables.paper_definitions(rows))]
    return "\n\n".join(filter(None, parts)) + "\n"


def main_sections(grid: Grid, classes: Classes, section: BoardSection) -> list[str]:
    """What the board says first: an answer in words, the first table of each ranking class, and the first figure."""
    parts = [answer(grid, classes, section.encoding.as_markdown)]
    for name, rows in classes.items():
        parts += [f"**{escape(ranking_title(name))}**"] if len(classes) > 1 else []
        parts.append(tables.short_table(grid, rows, section.encoding))
    if any(tables.second_hand(row) for rows in classes.values() for row in rows):
        full = f"[{FULL}](#{heading_anchor(FULL + section.suffix)})"
        parts.append(f"{SECOND_HAND} Second-hand: {SOURCE_MEANINGS['second-hand']}. {full} shows the source of every row.")
    shown = board_figures.alt_texts(grid, classes)
    return [*parts, section.figure(shown[board_figures.OVERVIEW], board_figures.OVERVIEW) if shown else ""]


def detail_sections(grid: Grid, classes: Classes, section: BoardSection) -> list[str]:
    """Everything below the first tables."""
    rows = [row for group in classes.values() for row in group]
    shown, parts = board_figures.alt_texts(grid, classes), []

    def add_figure(title: str, stem: str) -> None:
        if stem in shown:
            parts.extend([section.heading(title), section.figure(shown[stem], stem)])

    parts += [section.heading(FULL), *ranking_tables(grid, classes, section)]
    add_figure("Encodings by tasks", board_figures.SCORES)
    if table := tables.significance_table(rows):
        parts += [section.heading("Significance"), table]
    if found := resolution(classes):
        parts += [section.heading("How much this measurement resolves"), tables.resolution_text(found)]
    add_figure("Performance profiles", board_figures.PROFILES)
    if order := robustness(grid):
        parts += [section.heading(robustness_text.TITLE), robustness_text.robustness_words(order)]
        parts += [section.figure(shown[board_figures.ROBUSTNESS], board_figures.ROBUSTNESS)]
        parts += [*robustness_text.robustness_tables(order), robustness_text.HOW]
    add_figure("Accuracy against cost", board_figures.COST)
    parts += [section.heading("In-distribution"), tables.in_distribution_table(grid, rows)]
    parts += [section.heading("Reach in multiples of L"), tables.reach_table(grid, rows)]
    parts += [section.heading("Graded scores"), tables.graded_table(grid, rows)]
    for column in grid.columns:
        parts += task_section(column, rows, section)
    if stretched.compared(grid):
        alt = f"{stretched.TITLE}: exact match by length"
        parts += [section.heading(stretched.TITLE), stretched.TEXT, section.figure(alt, stretched.STEM)]
    if lines := tables.unfinished_runs(grid, rows):
        parts += [section.heading("Failed, diverged and missing runs"), tables.bullets(lines)]
    if lines := tables.cautions(grid, rows):
        parts += [section.heading("Cautions"), tables.bullets(lines)]
    return [*parts, section.heading("Encodings"), tables.encodings_table(rows)]


def ranking_tables(grid: Grid, classes: Classes, section: BoardSection) -> list[str]:
    """The full table, one table for every other ranking class, and what is special about the training of some rows."""
    parts = []
    for name, rows in classes.items():
        if name != "standard":
            parts.append(section.heading(escape(ranking_title(name)), 2))
        parts.append(tables.overall_table(grid, rows, section.encoding))
    notes = tables.training_notes([row for rows in classes.values() for row in rows])
    return [*parts, tables.bullets(notes)]


def task_section(column: Column, rows: Sequence[Row], section: BoardSection) -> list[str]:
    """One task: figure and accuracy at every length."""
    known = tasks.catalogue().get(column.task)
    title = known.title if known else column.task
    unit = f"; length = {known.length_is}" if known else ""
    parts = [section.heading(escape(title)), f"Variant {escape(column.variant)}, L = {column.train_length}{escape(unit)}."]
    if any(row.cells[column.task].runs for row in rows):
        alt = f"{title}: exact match by test length, one panel a family"
        parts.append(section.figure(alt, board_figures.task_stem(column.task)))
    return [*parts, tables.length_table(column, rows)]
