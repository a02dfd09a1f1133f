"""Two encodings side by side, as text for a terminal of any width; readable without colour and in a pipe."""

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from leaderboard.format import ABSENT, BUSY, FLAG, p_value, printable, share
from leaderboard.stats import scores as st
from leaderboard.stats import significance
from leaderboard.stats.compare import EncodingComparison, TaskComparison

from . import columns
from .cautions import machines
from .tables import unfinished_runs
from .task_metrics import CELL_TEXT, IN_DISTRIBUTION, REACH

COLOURS = {"A": "cyan", "B": "magenta"}
BARS, PLAIN_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*%#"
"""Bars from 0 to 1 in steps of an eighth."""
RULE, PLAIN_RULE = "│", "|"
LENGTH_WIDTH = 4
"""Smallest width of one length in a curve, in characters."""
SHOWN = (
    *(columns.TIER, columns.SCORE, columns.MEAN_REACH, columns.IQM),
    *(columns.IN_DISTRIBUTION_MEAN, columns.SEEDS, columns.PARAMETERS, columns.STEP_TIME),
    *(columns.RANKING_CLASS, columns.FAMILY, columns.SOURCE, columns.LENGTHS, columns.PAPER),
)
"""One line each, the same numbers as in the board's tables."""


def print_comparison(comparison: EncodingComparison, console: Console) -> None:
    """Print a comparison, as wide as the console."""
    plain = not can_encode(console.encoding, BARS + RULE)
    parts = [
        comparison_heading(comparison),
        overall_lines(comparison),
        section_title("Score (l > L): mean over seeds ± half-width of its 95 % interval"),
        score_lines(comparison),
        "",
        verdict_lines(comparison),
        section_title("Exact match at l ≤ L, reach in multiples of L"),
        task_lines(comparison),
        section_title("Exact match by length, mean over seeds; the rule marks L"),
        *(length_curves(duel, console.width, plain) for duel in comparison.by_task),
    ]
    if lines := comparison_notes(comparison):
        parts += [section_title("Notes"), *(bullet(line) for line in lines)]
    console.print(*parts, sep="\n", highlight=False, markup=False, emoji=False)


def can_encode(encoding: str, characters: str) -> bool:
    try:
        characters.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def section_title(text: str) -> Text:
    return Text("\n" + text, style="bold")


def add_line(table: Table, *cells: str) -> None:
    """Add a row of plain text, so that a name that looks like rich's markup stays text."""
    table.add_row(*(Text(cell) for cell in cells))


def bullet(line: str) -> Table:
    """A paragraph that stays to the right of its dash when it is wrapped."""
    table = Table.grid(padding=(0, 1, 0, 0))
    add_line(table, "-", line)
    return table


def side_label(name: str) -> Text:
    return Text(name, style=f"bold {COLOURS[name]}")


def comparison_heading(comparison: EncodingComparison) -> RenderableType:
    grid = comparison.grid
    names = [
        side_label(s).append(f" {printable(row.name, 200)}", "default") for s, row in zip("AB", comparison.rows, strict=True)
    ]
    return Group(*names, f"suite {printable(grid.name)} version {grid.version}, fingerprint {printable(grid.fingerprint)}\n")


def paired_table(*before: str, pairs: Sequence[str] = ("",), after: Sequence[str] = ()) -> Table:
    """An empty table: columns on the left, pairs of columns for A and B, columns on the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for head in before:
        table.add_column(head)
    for pair in pairs:
        for name in COLOURS:
            table.add_column(Text(f"{pair}\n" if pair else "").append(side_label(name)), justify="right")
    for head in after:
        table.add_column(head, justify="right")
    return table


def overall_lines(comparison: EncodingComparison) -> Table:
    """One line per property of the encodings."""
    table = paired_table("")
    for column in SHOWN:
        add_line(table, column.title, *(column.text(row) for row in comparison.rows))
    return table


def score_lines(comparison: EncodingComparison) -> Table:
    table = paired_table("task", "L → L′", after=("A - B", "P(A > B)"))
    for duel in comparison.by_task:
        column = duel.column
        values = [interval(duel.a.score) or duel.a.state, interval(duel.b.score) or duel.b.state]
        values += [interval(duel.difference, signed=True) or ABSENT]
        values += [ABSENT if duel.improvement is None else two_decimals(duel.improvement)]
        add_line(table, columns.task_title(column.task), f"{column.train_length} → {column.lengths[-1]}", *values)
    return table


def two_decimals(value: float) -> str:
    """``.42``."""
    return f"{value:.2f}".removeprefix("0")


def interval(value: tuple[float, float | None] | None, signed: bool = False) -> str:
    """``.423 ± .051``; empty for None. Uses the ASCII minus sign: a terminal may be unable to show any other."""
    if value is None:
        return ""
    mean, half = value
    size = share(abs(mean))
    sign = "" if not signed or size == share(0) else "-" if mean < 0 else "+"
    return sign + size + (f" ± {share(half)}" if half is not None else "")


def verdict_lines(comparison: EncodingComparison) -> Table:
    """The numbers that describe the pair, each with its meaning."""
    table = Table.grid(padding=(0, 2, 0, 0))
    if comparison.improvement is None or comparison.difference is None:
        add_line(table, "There is no task on which both have a run: nothing to test.")
        return table
    met, tasks = len(comparison.common), len(comparison.by_task)
    over = f"over all {tasks} tasks" if met == tasks else f"over the {met} of {tasks} tasks that both have run"
    ends = comparison.interval
    chance = two_decimals(comparison.improvement) + (f" [{two_decimals(ends[0])}, {two_decimals(ends[1])}]" if ends else "")
    add_line(table, "P(A > B)", f"{chance}: the probability that a run of A beats a run of B on the same task, {over}")
    add_line(table, "A - B", f"{interval((comparison.difference, None), signed=True)}: the difference of the scores, {over}")
    if comparison.p is None:
        add_line(table, "p", "not tested: that needs several runs of both on every task")
    else:
        verdict = "separated" if comparison.p <= significance.ALPHA else "not separated"
        text = "by the board's step-down maximum test, adjusted for all pairs of its encodings"
        add_line(table, "p", f"{p_value(comparison.p)}: {verdict}, {text}")
    add_line(table, "score", f"{CELL_TEXT}, averaged over l > L with equal weight per octave, floored at 0")
    return table


def task_lines(comparison: EncodingComparison) -> Table:
    metrics = (IN_DISTRIBUTION, REACH)
    table = paired_table("\ntask", pairs=[metric.title for metric in metrics])
    for duel in comparison.by_task:
        pairs = list(zip((duel.a, duel.b), comparison.rows, strict=True))
        values = [metric.text(cell, row) for metric in metrics for cell, row in pairs]
        add_line(table, columns.task_title(duel.column.task), *values)
    return table


def length_curves(duel: TaskComparison, width: int, plain: bool) -> Text:
    """One task: a column per test length, for each encoding a bar from 0 to 1 above its number, and a rule after L.

    Arguments:
        width: of the terminal; lengths that do not fit continue below.
        plain: use ASCII only.
    """
    column, bars, rule = duel.column, PLAIN_BARS if plain else BARS, f" {PLAIN_RULE if plain else RULE}"
    cell_width = max(LENGTH_WIDTH, *(len(str(n)) for n in column.lengths))
    text = Text.assemble((columns.task_title(column.task), "bold"), f", L = {column.train_length}\n")
    per_line = max(1, (width - 1 - len(rule)) // (cell_width + 1))
    for start in range(0, len(column.lengths), per_line):
        part = slice(start, start + per_line)

        def line(label: str, values: Sequence[str], part: slice = part) -> str:
            ends = [rule if n == column.train_length else "" for n in column.lengths[part]]
            return label + "".join(f" {value:>{cell_width}}{end}" for value, end in zip(values, ends, strict=True)) + "\n"

        text.append(line(" ", [str(n) for n in column.lengths[part]]), "dim")
        for name, cell in (("A", duel.a), ("B", duel.b)):
            if not cell.runs:
                text.append(f"{name} {cell.state}\n", COLOURS[name])
                continue
            values = cell.by_length[part]
            text.append(line(name, [bar(value, bars) * cell_width for value in values]), COLOURS[name])
            text.append(line(" ", [two_decimals(value) for value in values]))
    return text


def bar(value: float, bars: str) -> str:
    return bars[round(value * (len(bars) - 1))]


def comparison_notes(comparison: EncodingComparison) -> list[str]:
    """Reasons to trust the numbers less: other versions, missing runs, different machines."""
    grid, lines = comparison.grid, []
    if comparison.newest is not grid:
        newest = comparison.newest
        lines.append(
            f"the suite is now at version {newest.version}, fingerprint {printable(newest.fingerprint)}, without runs of both"
        )
    for other in comparison.left_out:
        count = sum(len(other.runs.get((c.task, row.name), ())) for c in other.columns for row in comparison.rows)
        lines.append(
            f"excluded, since results of different fingerprints do not compare: {count} runs of version {other.version}, "
            f"fingerprint {printable(other.fingerprint)}"
        )
    if any(len(cell.runs) == 1 for row in comparison.rows for cell in row.cells.values()):
        lines.append("a single seed does not show the spread over seeds: no interval, and small differences mean nothing")
    lines += unfinished_runs(grid, comparison.rows, printable)
    for row in comparison.rows:
        if row.flagged:
            lines.append(
                f"{FLAG}: {printable(row.name, 200)} is under {share(st.GATE)} at l ≤ L on a task that it has "
                "not learned at its training lengths; its score there says little about extrapolation"
            )
    if comparison.a.ranking != comparison.b.ranking:
        kinds = " and ".join(printable(row.ranking) for row in comparison.rows)
        lines.append(f"they are in different tables of the board, {kinds}: what they know or saw in training differs")
    runs = [run for row in comparison.rows for run in row.runs]
    priced = all(row.name in grid.costs for row in comparison.rows)
    if not priced and len(devices := machines(runs, printable)) > 1:
        lines.append(f"step times come from different machines and do not compare: {'; '.join(devices)}")
    if any(row.busy for row in comparison.rows):
        lines.append(f"{BUSY}: timed on a busy machine")
    return lines
