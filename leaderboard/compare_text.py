"""Two encodings side by side, as text for a terminal of any width: readable without colour, and as plain text in a pipe."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from . import significance
from . import statistics as st
from .compare import Comparison, Duel
from .grid import Grid
from .markdown import numbers, printable, share
from .summary import BASE, Cell, Row
from .tables import ABSENT, BUSY, FLAG, gated, iqm, parameters, reached, score, seeds, step_time

COLOURS = {"A": "cyan", "B": "magenta"}
BARS, PLAIN_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*%#"
"""From 0 to 1 in steps of an eighth."""
RULE, PLAIN_RULE = "│", "|"
CELL = 4
"""Least width of one length in a curve."""


def show(comparison: Comparison, console: Console) -> None:
    """Print a comparison, as wide as the console is."""
    plain = not can_show(console.encoding, BARS + RULE)
    parts = [
        heading(comparison),
        facts(comparison),
        title("OOD exact match (l > L): mean over seeds ± half-width of its 95 % interval"),
        past_training(comparison),
        "",
        verdict(comparison),
        title("In distribution (l ≤ L), reach, milliseconds a training step"),
        within(comparison),
        title("Exact match by length, mean over seeds; the rule stands behind L"),
        *(curves(duel, console.width, plain) for duel in comparison.duels),
    ]
    if lines := notes(comparison):
        parts += [title("Notes"), *(bullet(line) for line in lines)]
    console.print(*parts, sep="\n", highlight=False, markup=False, emoji=False)


def can_show(encoding: str, characters: str) -> bool:
    try:
        characters.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def title(text: str) -> Text:
    return Text("\n" + text, style="bold")


def add(table: Table, *cells: str) -> None:
    """A row of plain text: what looks like rich's markup in a name is none."""
    table.add_row(*(Text(cell) for cell in cells))


def bullet(line: str) -> Table:
    """A paragraph that stays to the right of its dash when it is folded."""
    table = Table.grid(padding=(0, 1, 0, 0))
    add(table, "-", line)
    return table


def side(name: str) -> Text:
    return Text(name, style=f"bold {COLOURS[name]}")


def heading(comparison: Comparison) -> RenderableType:
    grid = comparison.grid
    names = [side(s).append(f" {printable(row.name, 200)}", "default") for s, row in zip("AB", comparison.rows, strict=True)]
    return Group(*names, f"suite {printable(grid.name)} version {grid.version}, fingerprint {printable(grid.fingerprint)}\n")


def sided(*before: str, pairs: Sequence[str] = ("",), after: Sequence[str] = ()) -> Table:
    """An empty table: columns to the left, pairs of columns for A and B, columns after them."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for head in before:
        table.add_column(head)
    for what in pairs:
        for name in COLOURS:
            table.add_column(side(name) if not what else Text(f"{what}\n").append(side(name)), justify="right")
    for head in after:
        table.add_column(head, justify="right")
    return table


def facts(comparison: Comparison) -> Table:
    """What is one number or word an encoding."""
    table = sided("")
    for label, value in {
        "score, IQM": iqm,
        "score, mean": score,
        "in distribution": lambda row: gated(row.in_distribution, row.flagged),
        "seeds": seeds,
        "parameters added": parameters,
        f"step × {BASE}": step_time,
        "ranking class": lambda row: printable(row.ranking),
        "family, year": lambda row: f"{printable(row.record.family)}, {row.record.year}",
    }.items():
        add(table, label, *(value(row) for row in comparison.rows))
    return table


def past_training(comparison: Comparison) -> Table:
    table = sided("task", "L → L′", after=("A - B", "P(A > B)", "p"))
    for duel in comparison.duels:
        column = duel.column
        values = [interval(duel.a.ood) or duel.a.state, interval(duel.b.ood) or duel.b.state]
        values += [interval(duel.difference, signed=True) or ABSENT]
        values += [ABSENT if duel.improvement is None else brief(duel.improvement), probability(duel.p)]
        add(table, printable(column.task), f"{column.train_length} → {column.lengths[-1]}", *values)
    return table


def brief(value: float) -> str:
    """Two decimals: ``.42``."""
    return f"{value:.2f}".removeprefix("0")


def probability(p: float | None) -> str:
    return ABSENT if p is None else "<.001" if p < 0.001 else share(p)


def interval(value: tuple[float, float | None] | None, signed: bool = False) -> str:
    """``.423 ± .051``; nothing for nothing. The sign is the keyboard's, since a terminal may show ``?`` for any other."""
    if value is None:
        return ""
    mean, half = value
    size = share(abs(mean))
    sign = "" if not signed or size == share(0) else "-" if mean < 0 else "+"
    return sign + size + (f" ± {share(half)}" if half is not None else "")


def verdict(comparison: Comparison) -> Table:
    """What is one number for the pair, each with what it means."""
    table = Table.grid(padding=(0, 2, 0, 0))
    if comparison.p is None or comparison.improvement is None or comparison.difference is None:
        add(table, "There is no task on which both have a run: nothing to test.")
        return table
    met, tasks = len(comparison.met), len(comparison.duels)
    over = f"over all {tasks} tasks" if met == tasks else f"over the {met} of {tasks} tasks that both have run"
    ends = comparison.interval
    chance = brief(comparison.improvement) + (f" [{brief(ends[0])}, {brief(ends[1])}]" if ends else "")
    told = "tell A and B apart" if comparison.p <= significance.ALPHA else "do not tell A and B apart"
    add(table, "P(A > B)", f"{chance}: the chance that a run of A scores above a run of B on the same task, {over}")
    add(
        table,
        "p",
        f"{probability(comparison.p)}: the runs {told}. Stratified permutation test on the difference of mean scores, "
        f"{interval((comparison.difference, None), signed=True)}, {over}, for this pair alone; the board corrects for all "
        "pairs of a table. By task, p is corrected for the number of tasks (Holm).",
    )
    add(table, "score", "exact match at l > L after guessing is taken out, (accuracy − chance) / (1 − chance), not under 0")
    return table


def within(comparison: Comparison) -> Table:
    table = sided("\ntask", pairs=("l ≤ L", "reach", "ms"))
    for duel in comparison.duels:
        cells = duel.a, duel.b
        values = [gated(cell.in_distribution, cell.flagged) if cell.runs else cell.state for cell in cells]
        values += [reached(cell) if cell.runs else ABSENT for cell in cells]
        values += [step(cell) for cell in cells]
        add(table, printable(duel.column.task), *values)
    return table


def step(cell: Cell) -> str:
    """Median over the runs that took a step: over those of a quiet machine, or else all, and marked."""
    runs = [run for run in cell.runs if run.timings.step_ms > 0]
    quiet = [run for run in runs if not run.timings.busy]
    if not runs:
        return ABSENT
    return f"{np.median([run.timings.step_ms for run in quiet or runs]):.1f}" + ("" if quiet else f" {BUSY}")


def curves(duel: Duel, width: int, plain: bool) -> Text:
    """One task: a column a test length, for each encoding a bar from 0 to 1 with the number under it, and a rule behind L.

    Arguments:
        width: of the terminal; what does not fit goes on below.
        plain: no characters beyond ASCII.
    """
    column, bars, rule = duel.column, PLAIN_BARS if plain else BARS, f" {PLAIN_RULE if plain else RULE}"
    wide = max(CELL, *(len(str(n)) for n in column.lengths))
    text = Text.assemble((printable(column.task), "bold"), f", L = {column.train_length}\n")
    fit = max(1, (width - 1 - len(rule)) // (wide + 1))
    for start in range(0, len(column.lengths), fit):
        part = slice(start, start + fit)

        def line(label: str, values: Sequence[str], part: slice = part) -> str:
            ends = [rule if n == column.train_length else "" for n in column.lengths[part]]
            return label + "".join(f" {value:>{wide}}{end}" for value, end in zip(values, ends, strict=True)) + "\n"

        text.append(line(" ", [str(n) for n in column.lengths[part]]), "dim")
        for name, cell in (("A", duel.a), ("B", duel.b)):
            if not cell.runs:
                text.append(f"{name} {cell.state}\n", COLOURS[name])
                continue
            values = cell.by_length[part]
            text.append(line(name, [bar(value, bars) * wide for value in values]), COLOURS[name])
            text.append(line(" ", [brief(value) for value in values]))
    return text


def bar(value: float, bars: str) -> str:
    return bars[round(value * (len(bars) - 1))]


def notes(comparison: Comparison) -> list[str]:
    """What makes the numbers say less than they look."""
    grid, lines = comparison.grid, []
    if comparison.newest is not grid:
        now = comparison.newest
        lines.append(
            f"the suite is now at version {now.version}, fingerprint {printable(now.fingerprint)}, without runs of both"
        )
    for other in comparison.left_out:
        count = sum(len(other.runs.get((c.task, row.name), ())) for c in other.columns for row in comparison.rows)
        lines.append(
            f"left out, since results of different fingerprints do not compare: {count} runs of version {other.version}, "
            f"fingerprint {printable(other.fingerprint)}"
        )
    if any(len(cell.runs) == 1 for row in comparison.rows for cell in row.cells.values()):
        lines.append("a single seed says nothing of the spread over seeds: no interval, and small differences mean nothing")
    for row in comparison.rows:
        lines += lacking(grid, row)
    if comparison.a.ranking != comparison.b.ranking:
        kinds = " and ".join(printable(row.ranking) for row in comparison.rows)
        lines.append(f"they stand in different tables of the board, {kinds}: what they know or saw in training differs")
    lines += timing(comparison)
    return lines


def lacking(grid: Grid, row: Row) -> list[str]:
    """Runs that are missing, failed or diverged, and tasks not learned."""
    name, lines = printable(row.name, 200), []
    for cell in row.cells.values():
        task = printable(cell.column.task)
        if cell.absent:
            lines.append(f"missing: {name} on {task}, {numbers(cell.absent)}")
        for seed in cell.failed:
            error = grid.failures[cell.column.task, row.name, seed].error
            lines.append(f"failed: {name} on {task}, seed {seed}: {printable(error, 200)}")
        lines += [f"diverged: {name} on {task}, seed {r.seed}; counts as zero" for r in cell.runs if r.status == "diverged"]
    if row.flagged:
        lines.append(
            f"{FLAG}: {name} is under {share(st.GATE)} in distribution there; it has not learned the task at its training "
            "lengths, so what it does past them says little about extrapolation"
        )
    return lines


def timing(comparison: Comparison) -> list[str]:
    """What makes times less comparable than they look."""
    lines = []
    runs = [run for row in comparison.rows for cell in row.cells.values() for run in cell.runs]
    places = sorted({f"{printable(run.device)}, {run.threads} thread{'s' * (run.threads != 1)}" for run in runs})
    if len(places) > 1:
        lines.append(f"step times come from different machines and do not compare: {'; '.join(places)}")
    if any(row.busy for row in comparison.rows) or any(
        BUSY in step(cell) for row in comparison.rows for cell in row.cells.values()
    ):
        lines.append(f"{BUSY}: timed while the machine did other work, and by no run without")
    return lines
