"""The board's tables and lists, as markdown: from ``Row`` and ``Cell`` to text, one function a table."""

from collections.abc import Callable, Sequence

from . import statistics as st
from .grid import Column, Grid
from .markdown import code, definition, escape, link, numbers, reference, share, table, times
from .summary import ANCHOR, BASE, Cell, Row, Versus

FLAG = "⚑"
BUSY = "‡"
"""Marks a time that was taken while the machine was busy with something else."""
VISIBLE_CHANCE = 0.02
"""Chance levels above this are shown beside the accuracies."""
ABSENT = "–"


def named(row: Row) -> str:
    """The encoding's name, linked to its paper: by reference (see ``references``), else in place."""
    if row.record is None:
        return escape(row.name)
    by_reference = definition(row.name, row.record.link, row.record.title)
    return reference(row.name) if by_reference else link(row.name, row.record.link)


def references(rows: Sequence[Row]) -> list[str]:
    """The link definitions that ``named`` relies on, by name; the first of two of the same name holds."""
    found: dict[str, str] = {}
    for row in rows:
        if row.record and (line := definition(row.name, row.record.link, row.record.title)):
            found.setdefault(row.name, line)
    return [found[name] for name in sorted(found)]


def incomplete_cell(cell: Cell) -> str:
    """`` (2 of 5 seeds)`` where runs are lacking, with how many of those failed; nothing where none is."""
    if len(cell.runs) == cell.asked:
        return ""
    failed = f", {len(cell.failed)} failed" if cell.failed else ""
    return f" ({len(cell.runs)} of {cell.asked} seeds{failed})"


def ood(cell: Cell, row: Row) -> str:
    """``.423 ± .051``: mean over seeds and half-width of its 95 % interval."""
    if cell.ood is None:
        return cell.state
    mean, half = cell.ood
    # Where all cells of a row lack the same number of seeds, the row's column of seeds says it once.
    alike = len({(len(c.runs), c.asked, len(c.failed)) for c in row.cells.values()}) == 1 and not cell.failed
    return share(mean) + (f" ± {share(half)}" if half is not None else "") + ("" if alike else incomplete_cell(cell))


def gated(value: float | None, flagged: bool) -> str:
    return (ABSENT if value is None else share(value)) + (f" {FLAG}" if flagged else "")


def ranged(value: float | None, interval: tuple[float, float] | None) -> str:
    """``.423 [.392, .455]``, as far as there is one and the other."""
    if value is None:
        return ABSENT
    return share(value) + (f" [{share(interval[0])}, {share(interval[1])}]" if interval else "")


def iqm(row: Row) -> str:
    return ranged(row.iqm, row.iqm_interval) if row.complete else "incomplete"


def score(row: Row) -> str:
    return ranged(row.score, row.interval) if row.complete else "incomplete"


def places(row: Row) -> str:
    """``3–7``: those in its table that the tests leave open."""
    return "–".join(map(str, sorted({*row.places}))) if row.places else ABSENT


def seeds(row: Row) -> str:
    """``5``; ``3–5 of 5`` where tasks differ or runs are lacking."""
    have = [len(c.runs) for c in row.cells.values()]
    asked = max(c.asked for c in row.cells.values())
    span = str(min(have)) if min(have) == max(have) else f"{min(have)}–{max(have)}"
    return span if min(have) == asked else f"{span} of {asked}"


def parameters(row: Row) -> str:
    if row.parameters is None:
        return ABSENT
    low, high = row.parameters
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def step_time(row: Row) -> str:
    """Times NoPE's, marked where it comes from a busy machine."""
    return ABSENT if row.step_time is None else f"{row.step_time:.2f}" + (f" {BUSY}" if row.busy else "")


def memory(row: Row) -> str:
    """Times NoPE's."""
    return ABSENT if row.memory is None else f"{row.memory:.2f}"


def reaches(row: Row) -> str:
    """By task, in the order of the columns, as multiples of L: ``1.5 · 0 · ≥5``."""
    return " · ".join(multiple(cell) for cell in row.cells.values())


def multiple(cell: Cell) -> str:
    if cell.reach is None:
        return ABSENT
    return ("≥" if cell.reach == cell.column.lengths[-1] else "") + times(cell.reach / cell.column.train_length)


def overall(grid: Grid, rows: Sequence[Row], named: Callable[[Row], str] = named) -> str:
    """The main table: rank, scores, OOD accuracy by task, what it is in distribution and what it costs.

    Arguments:
        named: a row's name as it is to stand there, with its link.
    """
    header = ["rank", "encoding", "IQM", "mean", "optimality gap", *(escape(c.task) for c in grid.columns)]
    header += [
        "in distribution",
        "reach ÷ L by task",
        "seeds",
        "parameters",
        f"step × {BASE}",
        f"step × {BASE}, past L",
        f"memory × {BASE}",
        "paper",
    ]
    body = [
        [
            str(row.rank) if row.rank else ABSENT,
            named(row),
            iqm(row),
            ranged(row.score, None),
            ranged(row.gap, None),
            *(ood(row.cells[c.task], row) for c in grid.columns),
            gated(row.in_distribution, row.flagged),
            reaches(row),
            seeds(row),
            parameters(row),
            step_time(row),
            ABSENT if row.step_time_past is None else f"{row.step_time_past:.2f}",
            memory(row),
            link(str(row.record.year), row.record.link) if row.record else ABSENT,
        ]
        for row in rows
    ]
    return table(header, body, left=2)


def significance_of(rows: Sequence[Row]) -> str:
    """Each row against the next and against ``ANCHOR``; empty where nothing could be compared."""
    if not any(row.below or row.against for row in rows):
        return ""
    header = ["encoding", "places", "row below", "P(better)", "p (Holm)", "separated"]
    header += [f"P(better than {ANCHOR})", f"p (Holm), {ANCHOR}", f"separated, {ANCHOR}"]
    body = []
    for row in rows:
        if row.places:
            below = escape(row.below.name) if row.below else ABSENT
            body.append([escape(row.name), places(row), below])
            body[-1] += [*versus(row.below), *versus(row.against)]
    return table(header, body)


def versus(found: Versus | None) -> list[str]:
    """Probability of improvement, p, and whether they are separated; if the row is the lower one, that too."""
    if found is None:
        return [ABSENT] * 3
    verdict = {"above": "yes", "below": "yes, it is below", None: "no"}[found.separated]
    return [ranged(found.improvement, found.interval), "<.001" if found.p < 0.001 else share(found.p), verdict]


def in_distribution(grid: Grid, rows: Sequence[Row]) -> str:
    """Exact match over l ≤ L, by task, flagged under the gate, and the seeds that are under it."""
    header = ["encoding", *(f"{escape(c.task)}, l ≤ {c.train_length}" for c in grid.columns)]
    body = []
    for row in rows:
        cells = [row.cells[c.task] for c in grid.columns]
        body.append([escape(row.name), *(gate(c) if c.runs else c.state for c in cells)])
    return table(header, body)


def gate(cell: Cell) -> str:
    """``.979 ⚑, 1 of 5 under .95``: the mean over seeds, and how many of them do not pass."""
    under = sum(not st.passes_gate(float(x)) for x in st.in_distribution(cell.column.at, cell.exact, cell.column.train_length))
    single = f", {under} of {len(cell.runs)} under {share(st.GATE)}" if under and len(cell.runs) > 1 else ""
    return gated(cell.in_distribution, cell.flagged) + single


def reach(grid: Grid, rows: Sequence[Row]) -> str:
    """The longest length mastered, in the task's units and as a multiple of L."""
    header = ["encoding", *(f"{escape(c.task)}, L = {c.train_length}" for c in grid.columns)]
    return table(header, [[escape(row.name), *(reached(row.cells[c.task]) for c in grid.columns)] for row in rows])


def reached(cell: Cell) -> str:
    """``15 (1.5 L)``; ``≥ 50 (5 L)`` where nothing longer was tested; ``0`` where the shortest length fails."""
    if cell.reach is None:
        return cell.state
    if cell.reach == 0:
        return "0"
    censored = "≥ " if cell.reach == cell.column.lengths[-1] else ""
    return f"{censored}{cell.reach} ({times(cell.reach / cell.column.train_length)} L)"


def by_length(column: Column, rows: Sequence[Row]) -> str:
    """Exact match at each test length, mean over seeds, with chance where it is worth a line."""
    lengths = [f"{n} = L" if n == column.train_length else str(n) for n in column.lengths]
    body = []
    for row in rows:
        cell = row.cells[column.task]
        values = [share(x) for x in cell.by_length] if cell.runs else [cell.state] * len(lengths)
        body.append([escape(row.name), *values])
    if max(column.chance) > VISIBLE_CHANCE:
        body.append(["*chance*", *(share(x) for x in column.chance)])
    return table(["encoding", *lengths], body)


def encodings(rows: Sequence[Row]) -> str:
    """What each row is: family, settings, paper, and the hash of the source that ran."""
    body = []
    for row in rows:
        if row.record:
            settings = ", ".join(f"{k} = {v}" for k, v in sorted(row.record.settings.items()))
            paper = f"{link(row.record.title, row.record.link)} ({row.record.year})"
            body.append([escape(row.name), escape(row.record.family), escape(settings, 200) if settings else ABSENT, paper])
            body[-1].append(code(row.record.source_sha256[:12]))
        else:
            body.append([escape(row.name), *[ABSENT] * 4])
    return table(["encoding", "family", "settings", "paper", "source SHA-256"], body, left=5)


def unfinished(grid: Grid, rows: Sequence[Row]) -> list[str]:
    """One line a failed run, a diverged run, and an encoding with missing runs."""
    lines = []
    for (task, encoding, seed), failure in sorted(grid.failures.items()):
        lines.append(f"- failed: {escape(encoding)} on {escape(task)}, seed {seed}: {escape(failure.error, 200)}")
    for run in grid.all_runs:
        if run.status == "diverged":
            where = f"{escape(run.encoding.name)} on {escape(run.task)}, seed {run.seed}"
            lines.append(f"- diverged: {where}, after {run.steps:,} steps; counts as zero")
    for row in rows:
        absent = [(c.column.task, c.absent) for c in row.cells.values() if c.absent]
        if absent:
            lines.append(f"- missing: {escape(row.name)} on " + "; ".join(f"{escape(t)} ({numbers(s)})" for t, s in absent))
    return lines


def cautions(grid: Grid, rows: Sequence[Row]) -> list[str]:
    """One line for whatever makes runs of one table less comparable than they look."""
    lines = []
    for row in rows:
        records = {
            (r.encoding.source_sha256, str(sorted(r.encoding.settings.items()))) for c in row.cells.values() for r in c.runs
        }
        if len(records) > 1:
            lines.append(f"- The runs of {escape(row.name)} come from {len(records)} versions of its source or settings.")
    versions = {tuple(sorted(r.versions.items())) for r in grid.all_runs}
    if len(versions) > 1:
        mixed = sorted({package for v in versions for package, _ in set(v).symmetric_difference(min(versions))})
        lines.append(f"- Runs were made with different versions of {escape(', '.join(mixed))}.")
    if len({r.device.startswith("cpu") for r in grid.all_runs}) > 1:
        lines.append("- Some runs trained in fp32 on CPU, others in bf16 on a GPU.")
    places = sorted({(r.device, r.threads) for r in grid.all_runs})
    if len(places) > 1:
        devices = "; ".join(f"{escape(device)}, {threads} thread{'s' * (threads != 1)}" for device, threads in places)
        priced = all(row.name in grid.prices for row in rows if row.record)
        where = "in ms, on the pages of encodings, " if priced else ""
        lines.append(f"- Step times {where}come from different machines and are not comparable: {devices}.")
    return lines
