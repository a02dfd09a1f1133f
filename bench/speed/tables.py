"""Tables of the page, one function per section: from ``Speed`` to text cells."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .record import Evaluation, Speed, Spread, Step
from .steps import OURS

FLAG = "⚑"
ABSENT = "–"
Ratios = dict[str, dict[str, float]]
"""Encoding → task → ratio."""


@dataclass(frozen=True)
class Table:
    """Formatted cells with a title."""

    title: str
    text: str
    """How it was measured and how to read it."""
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    """Number of leading columns that hold words and are aligned left."""


def unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def speedups(rows: Sequence[Step] | Sequence[Evaluation]) -> Ratios:
    """Median time of the fastest library model with that encoding, over ours."""
    ratios: Ratios = {}
    for ours in (row for row in rows if row.who == OURS):
        same = [row for row in rows if (row.task, row.encoding) == (ours.task, ours.encoding)]
        others = [row.ms.median for row in same if not row.who.startswith(OURS)]
        if others:
            ratios.setdefault(ours.encoding, {})[ours.task] = min(others) / ours.ms.median
    return ratios


def format_factor(value: float) -> str:
    return f"{value:.2f}×" if value < 10 else f"{value:,.0f}×"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def format_spread(spread: Spread) -> str:
    """``12.3 [12.1, 12.8]``: median and quartiles."""
    return f"{format_number(spread.median)} [{format_number(spread.low)}, {format_number(spread.high)}]"


def format_number(value: float) -> str:
    """Format with three significant digits, but all digits before the decimal point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def speedup_table(title: str, text: str, ratios: Ratios) -> Table:
    tasks = unique(task for row in ratios.values() for task in row)
    mean = statistics.geometric_mean
    rows = [
        [name, *(format_factor(row[t]) if t in row else ABSENT for t in tasks), format_factor(mean(row.values()))]
        for name, row in ratios.items()
    ]
    if ratios:
        columns = [mean([row[t] for row in ratios.values() if t in row]) for t in tasks]
        columns.append(mean([value for row in ratios.values() for value in row.values()]))
        rows.append(["geometric mean", *map(format_factor, columns)])
    return Table(title, text, ["encoding", *tasks, "geometric mean"], rows)


def time_table(title: str, text: str, rows: Sequence[Step] | Sequence[Evaluation]) -> Table:
    """Every contestant's times in milliseconds, one column per task."""
    tasks = unique(row.task for row in rows)
    lines = []
    for encoding, who in dict.fromkeys((row.encoding, row.who) for row in rows):
        by_task = {row.task: row for row in rows if (row.encoding, row.who) == (encoding, who)}
        counts = [row.parameters for row in by_task.values() if isinstance(row, Step)]
        parameters = [f"{min(counts):,}"] if counts else []
        lines.append([encoding, who, *parameters, *(format_spread(by_task[t].ms) if t in by_task else ABSENT for t in tasks)])
    with_parameters = ["parameters"] if any(isinstance(row, Step) for row in rows) else []
    return Table(title, text, ["encoding", "who", *with_parameters, *tasks], lines, left=2)


def step_tables(record: Speed) -> list[Table]:
    tables = []
    for suite in unique(row.suite for row in record.steps):
        rows = [row for row in record.steps if row.suite == suite]
        sizes = ", ".join(f"{task} {size}" for task, size in {row.task: row.examples for row in rows}.items())
        title = f"Training step at {suite}'s shapes"
        tables += [
            speedup_table(
                f"{title}: speed-up over the faster library",
                "Step time of the fastest library model with that encoding, over ours.",
                speedups(rows),
            ),
            time_table(
                f"{title}: ms",
                f"Median and quartiles over {min(row.ms.count for row in rows)} steps or more. Examples a step: {sizes}. "
                "Parameters: at the smallest vocabulary among the tasks.",
                rows,
            ),
        ]
    return tables


def evaluation_tables(record: Speed) -> list[Table]:
    rows = record.evaluation
    if not rows:
        return []
    lengths = ", ".join(f"{task} {length}" for task, length in {row.task: row.length for row in rows}.items())
    text = (
        f"{rows[0].examples} examples at L′ ({lengths}). The libraries: greedy `generate()` with KV cache, all examples in one "
        "batch, prompts padded on the left, as many new tokens as the longest answer has. Weights are untrained, which does "
        "not change the cost."
    )
    return [
        speedup_table(
            "Exact match at L′: speed-up over generate()",
            "Time for the test set of the fastest library model with that encoding, over ours.",
            speedups(rows),
        ),
        time_table("Exact match at L′: ms for the whole test set", text, rows),
    ]


def memory_tables(record: Speed) -> list[Table]:
    if not record.memory:
        return []
    text = (
        "Peak memory of a process so far, MiB. One process for training, a worker that trains run after run of `small`; one "
        "for each long training, NoPE on copying, whose memory must not grow with its steps; one for evaluation, T5 on every "
        "task at L′, first with few examples and then with many."
    )
    rows = [[row.what, row.detail, f"{row.mb:,.0f}"] for row in record.memory]
    return [Table("Peak memory", text, ["what", "of", "MiB"], rows, left=2)]


def growth_tables(record: Speed) -> list[Table]:
    if not record.growth:
        return []
    first = record.growth[0]
    text = (
        f"{first.examples} examples of copying at {', '.join(map(str, first.tokens))} tokens (lengths L, 2L, 5L, 10L of suite "
        f"`small`), model of `small`. Exponent x of time ∝ T^x between 5L and 10L, and that of the step's FLOPs, counted by "
        f"torch. {FLAG} grows faster than T². Step and evaluation at L′ relative to NoPE's, taking turns with it: the step at "
        "length L as on the cards of `lprime show`, the evaluation of 64 examples of copying."
    )
    rows = [
        [
            row.encoding,
            f"{row.step:.2f}",
            f"{row.evaluation:.2f}",
            *(format_number(spread.median) for spread in row.ms),
            f"{row.exponent:.2f}{f' {FLAG}' if row.exponent > 2 else ''}",
            f"{row.flops_exponent:.2f}",
        ]
        for row in record.growth
    ]
    header = ["encoding", "step × nope", "evaluation × nope", *(f"{t} tokens" for t in first.tokens), "exponent", "of FLOPs"]
    return [Table("Cost of every encoding, and its training step by tokens: ms", text, header, rows)]


def parts_tables(record: Speed) -> list[Table]:
    if not record.parts:
        return []
    text = (
        "Evaluation of copying at L′ by NoPE with one addition, relative to NoPE's, all taking turns. An encoding that "
        "computes a product for every pair of tokens besides that of attention, or its softmax without the fused kernel, "
        "pays that much before anything else."
    )
    rows = [[part.what, f"{part.evaluation:.2f}"] for part in record.parts]
    return [Table("What parts of attention cost", text, ["addition", "evaluation × nope"], rows)]


def profile_tables(record: Speed) -> list[Table]:
    if not record.profile:
        return []
    phases = list(record.profile[0].seconds)
    rows = []
    for p in record.profile:
        total = sum(p.seconds.values())
        rows.append([p.task, p.encoding, f"{total:.1f}", *(percent(p.seconds[phase] / total) for phase in phases)])
    text = f"Whole runs of suite `{record.profile[0].suite}`, as `lprime run --profile` measures them."
    return [Table("Time of a run by phase", text, ["task", "encoding", "s", *phases], rows, left=2)]


def overhead_tables(record: Speed) -> list[Table]:
    o = record.overhead
    if o is None:
        return []
    rows = [
        ["wall time", f"{o.wall_s:.2f}"],
        ["training", f"{o.train_s:.2f}"],
        ["evaluation", f"{o.evaluate_s:.2f}"],
        ["neither", f"{o.wall_s - o.train_s - o.evaluate_s:.2f} ({percent(o.share)})"],
        ["from the command to the first run", f"{o.to_first_run_s:.2f}"],
        ["first run, neither training nor evaluation", f"{o.first_run_rest_s:.2f}"],
        ["two interpreters and their imports, alone", f"{o.imports_s:.2f}"],
        ["from the command to the first step, without imports", f"{o.start_s:.2f}"],
        ["from the start of a run to the end of its first step, all imported", f"{o.first_step_s:.2f}"],
    ]
    text = (
        f"`lprime run quick` with one worker. First four rows: {o.runs} runs after the first. "
        "Others: start-up, where all time of the first run outside training and evaluation counts as before its first step."
    )
    return [Table("Grid overhead and start-up: seconds", text, ["what", "s"], rows)]


def all_tables(record: Speed) -> list[Table]:
    sections = (step_tables, evaluation_tables, memory_tables, growth_tables, parts_tables, profile_tables, overhead_tables)
    return [table for section in sections for table in section(record)]
