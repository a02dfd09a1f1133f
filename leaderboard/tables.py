"""The board's tables and lists, as markdown: from ``Row`` and ``Cell`` to text, one function a table."""

from collections.abc import Callable, Sequence

from bench.results import QUIET

from . import inference, significance
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
            body.append([escape(row.name), "–".join(map(str, sorted({*row.places}))), below])
            body[-1] += [*versus(row.below), *versus(row.against)]
    return table(header, body)


def versus(found: Versus | None) -> list[str]:
    """Probability of improvement, p, and whether they are separated; if the row is the lower one, that too."""
    if found is None:
        return [ABSENT] * 3
    verdict = {"above": "yes", "below": "yes, it is below", None: "no"}[found.separated]
    return [ranged(found.improvement, found.interval), "<.001" if found.p < 0.001 else share(found.p), verdict]


def in_distribution(grid: Grid, rows: Sequence[Row]) -> str:
    """Exact match over l ≤ L, by task, flagged under the gate."""
    header = ["encoding", *(f"{escape(c.task)}, l ≤ {c.train_length}" for c in grid.columns)]
    body = []
    for row in rows:
        cells = [row.cells[c.task] for c in grid.columns]
        body.append([escape(row.name), *(gated(c.in_distribution, c.flagged) if c.runs else c.state for c in cells)])
    return table(header, body)


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
        lines.append(f"- Step times come from different machines and are not comparable: {devices}.")
    return lines


EXPLANATION = f"""\
- **Exact match**: the share of test examples whose whole answer, `<eos>` included, is right under greedy decoding.
- **In distribution** is the mean over test lengths l ≤ L; the **task columns** show *OOD* (out-of-distribution) exact match,
  the mean over test lengths l > L, as mean over seeds ± half-width of its 95 % Student-t interval.
- **IQM**, the interquartile mean: the scores of all runs on all tasks are sorted, and the middle half is averaged; tasks weigh
  the same, however many of their runs there are. A run's score is its mean over l > L of (exact match − chance) / (1 − chance),
  not under 0: 1 is perfect, 0 is guessing. In brackets its 95 % interval: seeds resampled within each task (stratified
  bootstrap, {inference.REPLICATES:,} replicates), widened for the small number of seeds. In simulations with five tasks such
  intervals hold the truth in 93 to 97 % of cases, with three seeds as with five; in 87 % where three seeds pass or fail by
  chance on two tasks alone. A single seed gives no interval.
- **Mean** is that of the scores over seeds, then over tasks, and the **optimality gap** what it lacks to 1. Both see what the
  IQM hides: a task that an encoding is alone to solve or to fail.
- **Separated**: two encodings are separated if their mean scores are further apart than chance would bring them, by a
  permutation test that exchanges their runs within each task, p ≤ {significance.ALPHA:g}, and if their IQMs agree on which is
  the better. The p printed is after Holm's correction over all pairs of encodings in the table, and each with {ANCHOR}: the
  chance of even one false separation in a table is at most {100 * significance.ALPHA:g} %. Not separated does not mean equal.
- **Rank**: rows stand by IQM, then by mean. A rank is 1 + the number of rows above that are separated from the row, but never
  better than the rank of the row above. Where all encodings have a single seed nothing can be tested: ranks then go by the
  printed numbers, and small differences mean nothing. An encoding without a run on some task has no rank.
- **Significance**: *places* in the table are those that remain possible for an encoding, given what is separated.
  *P(better)*, the probability of improvement, is how often a run of it beats a run of the row below on the same task,
  averaged over tasks, a tie counting ½; in brackets its 95 % interval, made as above.
- **{FLAG}**: on some task the encoding is under {share(st.GATE)} in distribution. It has not learned that task at the lengths
  it was trained on, so its OOD numbers there say little about extrapolation. Nothing is left out for it.
- **Reach**: the longest tested length up to which exact match, averaged over seeds, never falls under {st.REACH:g};
  ≥ where that is the longest length tested, 0 where already the shortest fails.
- **Parameters** are those of the encoding alone. **Step × {BASE}** is the time of a training step at L relative to {BASE}'s,
  measured in turns with it (an encoding's page has more lengths); where that was not done, by the clocks of the runs: medians
  over seeds, geometric mean over tasks. {BUSY} marks times taken while the machine did something else, when the process had
  less than {QUIET:.0%} of a core to itself. **Memory × {BASE}** is a step's peak memory at the longest length measured.
- *missing*: no result yet. *failed*: it ended in an error. A *diverged* run (its loss was not finite) is a result: zeros."""
