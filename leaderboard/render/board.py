"""The board of one suite as markdown, with its figures. The same results give the same bytes.

A board is a front page of a few screens, a page of all tables and figures, and a page for each task.
"""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import tasks
from bench.files import write_atomic
from bench.suites.suite import Suite
from leaderboard.data import local_runs
from leaderboard.data.collect import collect, read_results
from leaderboard.data.conditions import with_conditions
from leaderboard.data.grid import Column, Grid
from leaderboard.data.store import RESULTS, read_runs
from leaderboard.figures import board_figures, stretched
from leaderboard.figures.canvas import file_name
from leaderboard.format import ranking_title
from leaderboard.stats.resolution import resolution
from leaderboard.stats.robustness import order_elsewhere, robustness
from leaderboard.stats.rows import Classes, Row, all_rows
from leaderboard.stats.summary import summarise

from . import columns, robustness_text, tables
from .answer import answer
from .cautions import caution_lines
from .columns import TableColumn
from .explanation import EXPLANATION, OTHER_VERSION, experiment_setup, signs
from .markdown import code, escape, heading_anchor, linked_name, themed_picture
from .task_metrics import CELL_TEXT
from .unverified import unverified_section

BOARD = "board.md"
HOW_TO_READ = "How to read this"


@dataclass(frozen=True)
class BoardPaths:
    """The files of a suite's board, relative to one folder."""

    front: str = BOARD
    details: str = "board-details.md"
    task_stem: str = "board-task-"
    """What the path of a task's page starts with."""
    images: str = ""
    """Folder of the figures: empty, or ends in a slash."""
    page: Callable[[str], str] | None = None
    """Path of an encoding's page; None where there are none."""

    def task(self, task: str) -> str:
        return f"{self.task_stem}{quote(task, safe='')}.md"


@dataclass(frozen=True)
class BoardFile:
    """One of these files, and its links to the others."""

    path: str
    paths: BoardPaths

    def relative(self, path: str) -> str:
        """The path of another file, relative to this one."""
        return posixpath.relpath(path, posixpath.dirname(self.path) or ".")

    def link(self, path: str) -> str:
        """The target of a link to another file."""
        return quote(self.relative(path), safe="/~=,+")

    def figure(self, alt: str, stem: str) -> str:
        return themed_picture(alt, lambda look: self.relative(self.paths.images + file_name(stem, look)))

    @property
    def encoding(self) -> TableColumn:
        """The column of names, linked to the encodings' pages or papers."""
        page = self.paths.page
        if page is None:
            return tables.PAPER_LINK
        return columns.encoding_column(lambda row: linked_name(row.name, self.link(page(row.name)) if row.record else None))

    @property
    def back(self) -> str:
        return f"[← the board]({self.link(self.paths.front)})"


def write_board(suite_or_name: Suite | str, out: Path, published: Path | None = None) -> tuple[Grid, list[Path]]:
    """Write ``<out>/<suite>/board.md``, its other pages and its figures from the results there.

    Arguments:
        suite_or_name: see ``collect``.
        published: a leaderboard's folder; its results are shown too.

    Returns:
        The grid of the board, and the paths of its pages, the front page first.

    Raises:
        InputError: no such suite, no results, a broken or contradictory result, or a path that cannot be written.
    """
    if published is None:
        grids, note = collect(suite_or_name, out), ""
        grids[0] = with_conditions(grids[0], out, read_results)
    else:
        grids, note = local_runs.with_local_runs(suite_or_name, out, published), local_runs.NOTE
        grids[0] = with_conditions(grids[0], published / RESULTS, read_runs)
    folder = out / grids[0].name
    pages, drawn = render_board(grids, note), board_figures.draw(grids[0])
    for name, data in drawn.items():
        write_atomic(folder / name, data)
    for name in reversed(pages):  # the front page last, so that it never shows what is not there
        write_atomic(folder / name, pages[name])
    return grids[0], [folder / name for name in pages]


def render_board(grids: Sequence[Grid], note: str = "") -> dict[str, str]:
    """Path → markdown of the pages of a board: the front page, all tables and figures, and each task.

    Arguments:
        grids: of one suite, as ``collect`` returns them; those of other fingerprints have a section below all tables.
        note: a paragraph under the title.
    """
    paths, grid = BoardPaths(), grids[0]
    front = BoardFile(paths.front, paths)
    parts = [f"# {escape(grid.name)}: accuracy beyond the training length", note, *front_sections(grid, summarise(grid), front)]
    return {paths.front: joined(parts)} | render_details(grids, paths)


def render_details(grids: Sequence[Grid], paths: BoardPaths) -> dict[str, str]:
    """All pages of a suite's board but the front page.

    Arguments:
        grids: of one suite, newest first.
    """
    grid, *others = grids
    classes = summarise(grid)
    file = BoardFile(paths.details, paths)
    alts = board_figures.alt_texts(grid, classes)
    parts = detail_sections(grid, classes, file, alts) if grid.runs or grid.failures else []
    for other in others:
        found = summarise(other)
        rows = all_rows(found)
        parts += [f"## Version {other.version}, fingerprint {code(other.fingerprint)}", OTHER_VERSION]
        parts += [experiment_setup(other), *ranking_tables(found), tables.task_scores_table(other, rows)]
        parts += [tables.in_distribution_table(other, rows), tables.reach_table(other, rows)]
    parts += [f"## {HOW_TO_READ}", EXPLANATION]
    heading = [f"# Suite {escape(grid.name)}: all tables and figures", f"{file.back} · Tasks: {task_links(grid, file)}"]
    pages = {paths.details: joined([*heading, table_of_contents(parts), experiment_setup(grid), *parts])}
    for column in grid.columns:
        file = BoardFile(paths.task(column.task), paths)
        pages[file.path] = joined(task_page(grid, column, all_rows(classes), file, alts))
    return pages


def joined(parts: Sequence[str]) -> str:
    return "\n\n".join(filter(None, parts)).rstrip() + "\n"


def task_links(grid: Grid, file: BoardFile) -> str:
    links = [(columns.task_markdown(c.task), file.link(file.paths.task(c.task))) for c in grid.columns]
    return " · ".join(f"[{title}]({target})" for title, target in links)


def table_of_contents(parts: Sequence[str]) -> str:
    """One line of links to the headings of the second level."""
    headings = [part.removeprefix("## ") for part in parts if part.startswith("## ")]
    return "Below: " + " · ".join(f"[{text}](#{heading_anchor(text)})" for text in headings)


def front_sections(grid: Grid, classes: Classes, file: BoardFile) -> list[str]:
    """The front page's part on a suite: an answer in words, a table for each ranking class, the first figure and links."""
    about = escape(grid.suite.about, 1000) if grid.suite else ""
    if not (grid.runs or grid.failures):
        return [about, experiment_setup(grid), "No run of this version yet.", *unverified_section(grid)]
    details = file.link(file.paths.details)
    meanings = [f"**{word}**: {meaning}." for word, meaning in signs(all_rows(classes)).items()]
    meanings.append(f"[More on how to read this]({details}#{heading_anchor(HOW_TO_READ)})")
    parts = [about, answer(grid, classes, file.encoding.as_markdown), "\\\n".join(meanings)]
    for name, rows in classes.items():
        parts += [f"**{escape(ranking_title(name))}**"] if len(classes) > 1 else []
        parts.append(tables.short_table(grid, rows, file.encoding))
    parts += unverified_section(grid)
    if alt := board_figures.alt_texts(grid, classes).get(board_figures.OVERVIEW):
        parts.append(file.figure(alt, board_figures.OVERVIEW))
    links = f"**More**: [all tables and figures]({details}) · Tasks: {task_links(grid, file)}"
    return [*parts, links, experiment_setup(grid)]


def detail_sections(grid: Grid, classes: Classes, file: BoardFile, alts: Mapping[str, str]) -> list[str]:
    """All tables and figures that cover several tasks.

    Arguments:
        alts: as ``board_figures.alt_texts`` returns them.
    """
    rows = all_rows(classes)
    parts = ["## Overall", *ranking_tables(classes, file.encoding)]
    parts += ["## Scores by task", tables.task_scores_table(grid, rows)]
    parts += unverified_section(grid, "## ")

    def add_figure(title: str, stem: str) -> None:
        if stem in alts:
            parts.extend([f"## {title}", file.figure(alts[stem], stem)])

    add_figure("Encodings by tasks", board_figures.SCORES)
    if table := tables.significance_table(rows):
        parts += ["## Significance", table]
    if found := resolution(classes):
        parts += ["## How much this measurement resolves", tables.resolution_text(found)]
    add_figure("Performance profiles", board_figures.PROFILES)
    if order := robustness(grid):
        parts += [f"## {robustness_text.TITLE}", robustness_text.robustness_words(order)]
        parts += [file.figure(alts[board_figures.ROBUSTNESS], board_figures.ROBUSTNESS)]
        titles = [columns.task_markdown(column.task) for column in grid.columns]
        parts += [*robustness_text.robustness_tables(order), robustness_text.task_scores_table(order, titles)]
        parts.append(robustness_text.HOW)
    if others := order_elsewhere(grid):
        parts += [f"## {robustness_text.ELSEWHERE_TITLE}", robustness_text.elsewhere_words(others)]
        parts.append(robustness_text.elsewhere_table(others))
    parts += ["## Cost", tables.cost_table(rows)]
    add_figure("Accuracy against cost", board_figures.COST)
    parts += ["## Exact match at l ≤ L", tables.in_distribution_table(grid, rows)]
    parts += ["## Reach in multiples of L", tables.reach_table(grid, rows)]
    parts += ["## Graded scores", tables.graded_table(grid, rows)]
    if stretched.STEM in alts:
        parts += [f"## {stretched.TITLE}", stretched.TEXT, file.figure(alts[stretched.STEM], stretched.STEM)]
    if lines := tables.unfinished_runs(grid, rows):
        parts += ["## Failed, diverged and missing runs", tables.bullets(lines)]
    if lines := caution_lines(grid, rows):
        parts += ["## Cautions", tables.bullets(lines)]
    return [*parts, "## Encodings", tables.encodings_table(rows)]


def ranking_tables(classes: Classes, encoding: TableColumn = tables.PAPER_LINK) -> list[str]:
    """The table over all tasks, one for every other ranking class, and what is special about the training of some rows."""
    parts = []
    for name, rows in classes.items():
        if name != "standard":
            parts.append(f"### {escape(ranking_title(name))}")
        parts.append(tables.overall_table(rows, encoding))
    notes = tables.training_notes(all_rows(classes))
    return [*parts, tables.bullets(notes)]


def variant_text(column: Column) -> str:
    """Unit of length and description of a known task's variant, with the first test example of the shortest length."""
    known = tasks.catalogue().get(column.task)
    if known is None or column.variant not in known.variants:
        return ""
    task = tasks.get(column.task, column.variant, column.lengths[-1])
    example = task.vocabulary.decode(tasks.test_set(task, column.lengths[0], 1, 0).tokens[0])
    return f"; length = {escape(known.length_is)}; {escape(known.variants[column.variant])}, such as `{example}`"


def task_page(grid: Grid, column: Column, rows: Sequence[Row], file: BoardFile, alts: Mapping[str, str]) -> list[str]:
    """One task: figure and accuracy at every length.

    Arguments:
        alts: as ``board_figures.alt_texts`` returns them.
    """
    known = tasks.catalogue().get(column.task)
    title = known.title if known else column.task
    others = f"[all tables and figures]({file.link(file.paths.details)}) · {task_links(grid, file)}"
    parts = [f"# {escape(title)}, suite {escape(grid.name)}", f"{file.back} · {others}"]
    parts.append(
        f"Variant {escape(column.variant)}, L = {column.train_length}{variant_text(column)}. The table has score and "
        "reach on this task, and exact match by test length, mean over seeds; guessing is taken out of score and reach alone. "
        f"The score is {CELL_TEXT}, so it can be above 0 where no answer is right as a whole."
    )
    stem = board_figures.task_stem(column.task)
    if stem in alts:
        parts.append(file.figure(alts[stem], stem))
    return [*parts, tables.length_table(column, rows)]
