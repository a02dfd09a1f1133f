"""The board: results in, markdown and pictures out. The same results give the same bytes."""

from collections.abc import Sequence
from pathlib import Path

import tasks
from bench.files import write_atomic
from bench.suite import Suite

from . import pictures, stretched, tables
from .collect import collect
from .grid import Column, Grid
from .markdown import code, escape, image
from .summary import Row, summarise

BOARD = "board.md"
HEADINGS = {
    "longer": "Saw longer lengths: lengths past L in training, or in a stage after it",
    "task-aware": "Task-aware: looks at what the tokens mean",
}


def write(suite_or_name: Suite | str, out: Path) -> Path:
    """Write ``<out>/<suite>/board.md`` and its pictures from the results there.

    Arguments:
        suite_or_name: see ``collect``.

    Returns:
        The path of ``board.md``.

    Raises:
        InputError: no such suite, no results, a broken or contradictory result, or a place that cannot be written.
    """
    grids = collect(suite_or_name, Path(out))
    folder = Path(out) / grids[0].name
    text, drawn = render(grids), pictures.draw(grids[0])
    for name, data in drawn.items():
        write_atomic(folder / name, data)
    write_atomic(folder / BOARD, text)  # last, so that it never shows a picture that is not there
    return folder / BOARD


def render(grids: Sequence[Grid]) -> str:
    """The board of the first grid as markdown, with a short section for each other fingerprint.

    Arguments:
        grids: of one suite, as ``collect`` gives them.
    """
    grid, *others = grids
    classes, *other_classes = (summarise(g) for g in grids)
    rows = [row for group in classes.values() for row in group]
    parts = [f"# {escape(grid.name)}: accuracy past the training length"]
    if grid.suite:
        parts.append(escape(grid.suite.about, 1000))
    parts.append(measured(grid))
    if grid.runs or grid.failures:
        if grid.runs:
            parts.append(image("accuracy by length", pictures.OVERVIEW))
        parts += ["## Overall", *ranking(grid, classes)]
        parts += ["## In distribution", tables.in_distribution(grid, rows)]
        parts += ["## Reach", tables.reach(grid, rows)]
        for column in grid.columns:
            parts += section(grid, column, rows)
        if stretched.shown(grid):
            parts += [
                f"## {stretched.TITLE}",
                stretched.TEXT,
                image(f"{stretched.TITLE}: exact match by length", stretched.PICTURE),
            ]
        if lines := tables.unfinished(grid, rows):
            parts += ["## Failed, diverged and missing runs", "\n".join(lines)]
        if lines := tables.cautions(grid, rows):
            parts += ["## Cautions", "\n".join(lines)]
        parts += ["## Encodings", tables.encodings(rows)]
    else:
        parts.append("No run of this version yet.")
    for other, found in zip(others, other_classes, strict=True):
        parts += another(other, found)
        rows += [row for group in found.values() for row in group]
    parts += ["## How to read this", tables.EXPLANATION]
    if links := tables.references(rows):
        parts.append("\n".join(links))
    return "\n\n".join(parts) + "\n"


def measured(grid: Grid) -> str:
    """One paragraph: what was trained, on what, and tested how."""
    model = grid.suite.model if grid.suite else None
    size = f" of {model.layers} layers and width {model.width}" if model else ""
    spans = [f"{escape(c.task)} ({escape(c.variant)}) {c.train_length} → {c.lengths[-1]}" for c in grid.columns]
    return (
        f"Causal transformers{size}, trained from scratch at lengths 1 … L and tested up to L′, L → L′: {', '.join(spans)}. "
        f"{plural(len(grid.seeds), 'seed')}; {spread([c.examples for c in grid.columns])} test examples at every length; "
        f"{spread([c.steps for c in grid.columns])} training steps. "
        f"Suite version {grid.version}, fingerprint {code(grid.fingerprint)}."
    )


def spread(values: Sequence[int]) -> str:
    """``800``, or ``800 to 1,200`` where tasks differ."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def ranking(grid: Grid, classes: dict[str, list[Row]]) -> list[str]:
    """The main table, and one of its own for every other ranking class."""
    parts = []
    for name, rows in classes.items():
        if name != "standard":
            parts.append(f"### {HEADINGS.get(name) or f'Ranking class {escape(name)}'}")
        parts.append(tables.overall(grid, rows))
    return parts


def section(grid: Grid, column: Column, rows: Sequence[Row]) -> list[str]:
    """One task: picture and accuracy at every length."""
    known = tasks.catalogue().get(column.task)
    title = known.title if known else column.task
    unit = f"; length = {known.length_is}" if known else ""
    parts = [f"## {escape(title)}", f"Variant {escape(column.variant)}, L = {column.train_length}{escape(unit)}."]
    if any(row.cells[column.task].runs for row in rows):
        parts.append(image(f"{title}: exact match by length", pictures.file_name(column.task)))
    return [*parts, tables.by_length(column, rows)]


def another(grid: Grid, classes: dict[str, list[Row]]) -> list[str]:
    """Results of another fingerprint found in the same folder: in tables of their own, never among the suite's."""
    rows = [row for group in classes.values() for row in group]
    return [
        f"## Another version: fingerprint {code(grid.fingerprint)}",
        "These runs were made with another version of suite or harness; their numbers do not compare with those above.",
        measured(grid),
        *ranking(grid, classes),
        tables.in_distribution(grid, rows),
        tables.reach(grid, rows),
    ]
