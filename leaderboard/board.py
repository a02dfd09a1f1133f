"""The board: results in, markdown and pictures out. The same results give the same bytes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tasks
from bench.files import write_atomic
from bench.suite import Suite

from . import local, pictures, stretched, tables
from .collect import collect
from .explanation import EXPLANATION
from .grid import Column, Grid
from .markdown import code, escape, picture, share
from .plot import file_name
from .summary import Row, summarise

BOARD = "board.md"
HEADINGS = {
    "longer": "Saw longer lengths: lengths past L in training, or in a stage after it",
    "task-aware": "Task-aware: looks at what the tokens mean",
}


def write(suite_or_name: Suite | str, out: Path, published: Path | None = None) -> Path:
    """Write ``<out>/<suite>/board.md`` and its pictures from the results there.

    Arguments:
        suite_or_name: see ``collect``.
        published: a leaderboard's folder, whose results are to stand beside them.

    Returns:
        The path of ``board.md``.

    Raises:
        InputError: no such suite, no results, a broken or contradictory result, or a place that cannot be written.
    """
    grids = collect(suite_or_name, Path(out)) if published is None else local.beside(suite_or_name, Path(out), published)
    folder = Path(out) / grids[0].name
    text, drawn = render(grids, "" if published is None else local.NOTE), pictures.draw(grids[0])
    for name, data in drawn.items():
        write_atomic(folder / name, data)
    write_atomic(folder / BOARD, text)  # last, so that it never shows a picture that is not there
    return folder / BOARD


@dataclass(frozen=True)
class Place:
    """Where a board's text stands: by default a file of its own, with the pictures beside it."""

    level: int = 1
    """Of its heading."""
    pictures: str = ""
    """Folder of its pictures as seen from the text: empty, or ends in a slash."""
    label: str = ""
    """What headings below its own end in, where several boards share a file."""
    named: Callable[[Row], str] = tables.named
    """An encoding's name, linked to where there is more."""

    def heading(self, text: str, below: int = 1) -> str:
        """A heading that many levels below the board's own."""
        return f"{'#' * (self.level + below)} {text}{self.label}"

    def image(self, alt: str, stem: str) -> str:
        light, dark = (self.pictures + file_name(stem, "svg", look) for look in ("light", "dark"))
        return picture(alt, light, dark)


def render(grids: Sequence[Grid], note: str = "") -> str:
    """The board of the first grid as markdown, with a short section for each other fingerprint.

    Arguments:
        grids: of one suite, as ``collect`` gives them.
        note: a paragraph under the title.
    """
    classes = [summarise(grid) for grid in grids]
    rows = [row for found in classes for group in found.values() for row in group]
    title, *rest = body(grids, classes, Place())
    parts = [title, *([note] if note else []), *rest]
    parts += ["## How to read this", EXPLANATION]
    if links := tables.references(rows):
        parts.append("\n".join(links))
    return "\n\n".join(parts) + "\n"


def body(grids: Sequence[Grid], classes: Sequence[dict[str, list[Row]]], place: Place) -> list[str]:
    """The board without what several boards in one file would share: explanations and link definitions.

    Arguments:
        classes: of each grid, as ``summarise`` gives them.
    """
    grid, *others = grids
    parts = [f"{'#' * place.level} {escape(grid.name)}: accuracy past the training length"]
    if grid.suite:
        parts.append(escape(grid.suite.about, 1000))
    if grid.runs or grid.failures:
        parts += [place.heading("Overall"), *ranking(grid, classes[0], place)]
        parts += overview(grid, classes[0], place)
        parts.append(measured(grid))
        parts += details(grid, classes[0], place)
    else:
        parts += [measured(grid), "No run of this version yet."]
    for other, found in zip(others, classes[1:], strict=True):
        parts += another(other, found, place)
    return parts


def overview(grid: Grid, classes: dict[str, list[Row]], place: Place) -> list[str]:
    """The picture to begin with, where there are runs."""
    shown = pictures.shown(grid, classes)
    return [place.image(shown[pictures.OVERVIEW], pictures.OVERVIEW)] if shown else []


def details(grid: Grid, classes: dict[str, list[Row]], place: Place) -> list[str]:
    """Everything below the main tables."""
    rows = [row for group in classes.values() for row in group]
    shown, parts = pictures.shown(grid, classes), []
    if pictures.SCORES in shown:
        parts += [place.heading("Encodings by tasks"), place.image(shown[pictures.SCORES], pictures.SCORES)]
    if table := tables.significance_of(rows):
        parts += [place.heading("Significance"), table]
    if pictures.PROFILES in shown:
        parts += [place.heading("Performance profiles"), place.image(shown[pictures.PROFILES], pictures.PROFILES)]
    if pictures.COST in shown:
        parts += [place.heading("Accuracy against cost"), place.image(shown[pictures.COST], pictures.COST)]
    parts += [place.heading("In distribution"), tables.in_distribution(grid, rows)]
    parts += [place.heading("Reach"), tables.reach(grid, rows)]
    for column in grid.columns:
        parts += section(grid, column, rows, place)
    if stretched.shown(grid):
        alt = f"{stretched.TITLE}: exact match by length"
        parts += [place.heading(stretched.TITLE), stretched.TEXT, place.image(alt, stretched.PICTURE)]
    if lines := tables.unfinished(grid, rows):
        parts += [place.heading("Failed, diverged and missing runs"), "\n".join(lines)]
    if lines := tables.cautions(grid, rows):
        parts += [place.heading("Cautions"), "\n".join(lines)]
    return [*parts, place.heading("Encodings"), tables.encodings(rows)]


def measured(grid: Grid) -> str:
    """One paragraph: what was trained, on what, and tested how."""
    model = grid.suite.model if grid.suite else None
    size = f" of {model.layers} layers, {model.heads} heads and width {model.width}" if model else ""
    spans = [f"{escape(c.task)} ({escape(c.variant)}) {c.train_length} → {c.lengths[-1]}" for c in grid.columns]
    return (
        f"Causal transformers{size}, trained from scratch at lengths 1 … L and tested up to L′, L → L′: {', '.join(spans)}. "
        f"{plural(len(grid.seeds), 'seed')}; {spread([c.examples for c in grid.columns])} test examples at every length; "
        f"{spread([c.steps for c in grid.columns])} training steps. {guessing(grid)}"
        f"Suite version {grid.version}, fingerprint {code(grid.fingerprint)}."
    )


def guessing(grid: Grid) -> str:
    """What the task columns would show of one who guesses, where that is worth a word."""
    levels = [(escape(c.task), float(np.mean(np.array(c.chance)[c.at > c.train_length]))) for c in grid.columns]
    shown = [f"{share(level)} on {name}" for name, level in levels if level > tables.VISIBLE_CHANCE]
    return f"Guessing alone gives {' and '.join(shown)}. " if shown else ""


def spread(values: Sequence[int]) -> str:
    """``800``, or ``800 to 1,200`` where tasks differ."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def ranking(grid: Grid, classes: dict[str, list[Row]], place: Place) -> list[str]:
    """The main table, and one of its own for every other ranking class."""
    parts = []
    for name, rows in classes.items():
        if name != "standard":
            parts.append(place.heading(HEADINGS.get(name) or f"Ranking class {escape(name)}", 2))
        parts.append(tables.overall(grid, rows, place.named))
    return parts


def section(grid: Grid, column: Column, rows: Sequence[Row], place: Place) -> list[str]:
    """One task: picture and accuracy at every length."""
    known = tasks.catalogue().get(column.task)
    title = known.title if known else column.task
    unit = f"; length = {known.length_is}" if known else ""
    parts = [place.heading(escape(title)), f"Variant {escape(column.variant)}, L = {column.train_length}{escape(unit)}."]
    if any(row.cells[column.task].runs for row in rows):
        parts.append(place.image(f"{title}: exact match by test length, one panel a family", pictures.of_task(column.task)))
    return [*parts, tables.by_length(column, rows)]


def another(grid: Grid, classes: dict[str, list[Row]], place: Place) -> list[str]:
    """Results of another fingerprint found in the same folder: in tables of their own, never among the suite's."""
    rows = [row for group in classes.values() for row in group]
    return [
        place.heading(f"Another version: fingerprint {code(grid.fingerprint)}"),
        "These runs were made with another version of suite or harness; their numbers do not compare with those above.",
        measured(grid),
        *ranking(grid, classes, place),
        tables.in_distribution(grid, rows),
        tables.reach(grid, rows),
    ]
