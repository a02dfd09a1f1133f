"""Tables of what was measured, one function a section: from ``Speed`` to text cells."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .record import Bound, Evaluation, Loop, Speed, Spread, Step
from .steps import OURS

FLAG = "⚑"
ABSENT = "–"


@dataclass(frozen=True)
class Table:
    """Ready cells under a title."""

    title: str
    text: str
    """How it was measured and how to read it."""
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    """Columns of words, which come first."""


def unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def fastest(rows: Sequence[Step] | Sequence[Evaluation]) -> float | None:
    """Least median of those that are not ours, in milliseconds."""
    return min((row.ms.median for row in rows if not row.who.startswith(OURS)), default=None)


def step_ratios(record: Speed, suite: str) -> dict[str, dict[str, float]]:
    """Encoding → task → the faster library's step over ours, medians."""
    return ratios([row for row in record.steps if row.suite == suite])


def evaluation_ratios(record: Speed, batch: int | None = None) -> dict[str, dict[str, float]]:
    """Encoding → task → the fastest ``generate()`` of a model with that encoding over our evaluation, medians.

    Arguments:
        batch: examples at a time that are generated; by default all.
    """
    return ratios([row for row in record.evaluation if row.who == OURS or row.batch == batch])


def ratios(rows: Sequence[Step] | Sequence[Evaluation]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for ours in (row for row in rows if row.who == OURS):
        theirs = fastest([r for r in rows if (r.task, r.encoding) == (ours.task, ours.encoding)])  # type: ignore[arg-type]
        if theirs is not None:
            found.setdefault(ours.encoding, {})[ours.task] = theirs / ours.ms.median
    return found


def mean(values: Iterable[float]) -> float:
    """Geometric."""
    return statistics.geometric_mean(values)


def factor(value: float) -> str:
    return f"{value:.2f}×" if value < 10 else f"{value:,.0f}×"


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def ms(spread: Spread) -> str:
    """``12.3 [12.1, 12.8]``: median and quartiles."""
    return f"{number(spread.median)} [{number(spread.low)}, {number(spread.high)}]"


def number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def ratio_table(title: str, text: str, found: dict[str, dict[str, float]]) -> Table:
    tasks = unique(task for row in found.values() for task in row)
    rows = [
        [name, *(factor(row[t]) if t in row else ABSENT for t in tasks), factor(mean(row.values()))]
        for name, row in found.items()
    ]
    if found:
        columns = [mean(row[t] for row in found.values() if t in row) for t in tasks]
        rows.append(["geometric mean", *map(factor, columns), factor(mean(v for row in found.values() for v in row.values()))])
    return Table(title, text, ["encoding", *tasks, "geometric mean"], rows)


def contestants(title: str, text: str, rows: Sequence[Step] | Sequence[Evaluation]) -> Table:
    """Everybody's times in milliseconds, one column a task."""
    tasks = unique(row.task for row in rows)
    lines = []
    for encoding, who in dict.fromkeys((row.encoding, row.who) for row in rows):
        mine = {row.task: row for row in rows if (row.encoding, row.who) == (encoding, who)}
        counts = [row.parameters for row in mine.values() if isinstance(row, Step)]
        parameters = [f"{min(counts):,}"] if counts else []
        lines.append([encoding, who, *parameters, *(ms(mine[t].ms) if t in mine else ABSENT for t in tasks)])
    with_parameters = ["parameters"] if any(isinstance(row, Step) for row in rows) else []
    return Table(title, text, ["encoding", "who", *with_parameters, *tasks], lines, left=2)


def step_tables(record: Speed) -> list[Table]:
    found = []
    for suite in unique(row.suite for row in record.steps):
        rows = [row for row in record.steps if row.suite == suite]
        bounds = [b for b in record.bounds if b.suite == suite]
        sizes = ", ".join(f"{b.task} {b.examples}" for b in bounds)
        title = f"Training step at {suite}'s shapes"
        found += [
            ratio_table(
                f"{title}: how many times as fast as the faster library",
                "Step time of the fastest library model with that encoding, over ours.",
                step_ratios(record, suite),
            ),
            contestants(
                f"{title}: ms",
                f"Median and quartiles over {min(row.ms.count for row in rows)} steps or more. Examples a step: {sizes}. "
                "Parameters: at the smallest vocabulary among the tasks.",
                rows,
            ),
            bound_table(f"{title}: the machine's own limit", bounds),
        ]
    if record.loops:
        text = (
            "`bench.train.train` as a run calls it, drawing of examples included and nothing in between; then the step above."
        )
        header = ["suite", "task", "encoding", "loop", "step"]
        lines = [[loop.suite, loop.task, loop.encoding, ms(loop.ms), number(step_of(record, loop))] for loop in record.loops]
        found.append(Table("The whole training loop: ms a step", text, header, lines, left=3))
    return found


def bound_table(title: str, bounds: Sequence[Bound]) -> Table:
    text = (
        "The bound is the time of the unpadded model's FLOPs at the best rate that any linear map's product reached in the "
        "same rounds. FLOPs: matrix products of all layers and tokens, T² of attention for each example, head where the answer "
        "is; backward counts as two forwards. *Needed*: what is left of them when the last layer goes on only where the answer "
        "is, which is all that we compute. *Mixed*: the rate of all linear maps' products, each at its own. Then our share of "
        "the bound, by encoding."
    )
    header = ["task", "tokens", "padded", "GFLOP", "needed", "best GFLOP/s", "mixed", "bound, ms"]
    rows = []
    for b in bounds:
        counts = [f"{b.tokens:,.0f}", f"{b.padded_tokens:,.0f}", number(b.gflop), percent(b.gflop_needed / b.gflop)]
        rates = [number(b.gflops), number(b.gflops_mixed), number(b.gflop / b.gflops * 1e3)]
        rows.append([b.task, *counts, *rates, *map(percent, b.shares.values())])
    return Table(title, text, header + list(bounds[0].shares if bounds else []), rows)


def step_of(record: Speed, loop: Loop) -> float:
    """Our median step that a loop stands beside."""
    key = (loop.suite, loop.task, loop.encoding, OURS)
    return next(row.ms.median for row in record.steps if (row.suite, row.task, row.encoding, row.who) == key)


def evaluation_tables(record: Speed) -> list[Table]:
    rows = record.evaluation
    if not rows:
        return []
    lengths = ", ".join(f"{task} {length}" for task, length in {row.task: row.length for row in rows}.items())
    text = (
        f"{rows[0].examples} examples at L′ ({lengths}). Theirs: greedy `generate()` with KV cache, all examples in one batch "
        "or a few at a time (timed on a part of them), prompts padded on the left, as many new tokens as the longest answer "
        "has. Weights are untrained: that changes no cost."
    )
    few = max((row.batch for row in rows if row.batch), default=None)
    ways = {"all in one batch": None} | ({f"{few} at a time, the library's own default": few} if few else {})
    return [
        *(
            ratio_table(
                f"Exact match at L′: how many times as fast as generate(), {way}",
                "Time for the test set of the fastest library model with that encoding, over ours.",
                evaluation_ratios(record, batch),
            )
            for way, batch in ways.items()
        ),
        contestants("Exact match at L′: ms for the whole test set", text, rows),
    ]


def generator_tables(record: Speed) -> list[Table]:
    if not record.generators:
        return []
    text = (
        "Plain Python loops over examples and draws symbol by symbol. *Lists*: looks symbols up and pads lists, as lean as it "
        "gets. *Text*: writes each example as a string, makes tensors of its tokens and mask, and pads those; modelled on "
        "Jelassi et al. (2024, sjelassi/transformers_ssm_copy), who pack in training. *Tokenizer*: gives strings to a "
        "tokenizer and a collator of transformers; modelled on Kazemnejad et al. (2023, McGill-NLP/length-generalization), "
        "who tokenize once and collate in every step. These two end in tensors of tokens and labels, and are divided by what "
        "the same takes us. The last column is what drawing examples and laying them out as tensors takes of a NoPE step."
    )
    ways = list(record.generators[0].theirs_us)
    rows = []
    for row in record.generators:
        what = f"{row.what}, length {'1 to ' if row.what == 'training' else ''}{row.length}"
        ratios = [factor(row.ratio(way)) for way in ways]
        share = ABSENT if row.step_share is None else percent(row.step_share)
        rows.append(
            [
                row.task,
                what,
                ms(row.ours_us),
                ms(row.ours_tensors_us),
                *(ms(row.theirs_us[way]) for way in ways),
                *ratios,
                share,
            ]
        )
    header = ["task", "examples", "ours", "ours, tensors", *ways, *(f"{way} ÷ ours" for way in ways), "of a step"]
    return [Table("Generators: µs an example", text, header, rows, 2)]


def memory_tables(record: Speed) -> list[Table]:
    if not record.memory:
        return []
    text = (
        "Most memory a process had held by then, MiB. One process for training, a worker that is given run after run of "
        "`small`; one for evaluation, T5 on every task at L′, first with few examples and then with many."
    )
    rows = [[row.what, row.detail, f"{row.mb:,.0f}"] for row in record.memory]
    return [Table("Peak memory", text, ["what", "of", "MiB"], rows, left=2)]


def growth_tables(record: Speed) -> list[Table]:
    if not record.growth:
        return []
    first = record.growth[0]
    text = (
        f"{first.examples} examples of copying at {', '.join(map(str, first.tokens))} tokens (lengths L, 2L, 5L, 10L of suite "
        f"`small`), its model. Exponent x of time ∝ T^x between 5L and 10L; the FLOPs' own is {first.flops_exponent:.2f}. "
        f"{FLAG} grows faster than T²."
    )
    rows = [
        [row.encoding, *(number(s.median) for s in row.ms), f"{row.exponent:.2f}{f' {FLAG}' if row.exponent > 2 else ''}"]
        for row in record.growth
    ]
    return [Table("Training step by tokens: ms", text, ["encoding", *(f"{t} tokens" for t in first.tokens), "exponent"], rows)]


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
        ["the first run, neither training nor evaluation", f"{o.first_run_rest_s:.2f}"],
        ["two interpreters and their imports, by themselves", f"{o.imports_s:.2f}"],
        ["from the command to the first step, without imports", f"{o.start_s:.2f}"],
        ["from the start of a run to the end of its first step, all imported", f"{o.first_step_s:.2f}"],
    ]
    text = (
        f"`lprime run quick` with one worker. Above: {o.runs} runs after the first, in which torch still imports. Below: "
        "start-up, where all that the first run does beside training and evaluation counts as done before its first step."
    )
    return [Table("Grid overhead and start-up: seconds", text, ["what", "s"], rows)]


def profile_tables(record: Speed) -> list[Table]:
    if not record.profile:
        return []
    phases = list(record.profile[0].seconds)
    rows = []
    for p in record.profile:
        total = sum(p.seconds.values())
        rows.append([p.task, p.encoding, f"{total:.1f}", *(percent(p.seconds[phase] / total) for phase in phases)])
    text = f"Whole runs of suite `{record.profile[0].suite}` by `lprime run --profile`, in this process."
    return [Table("Where a run spends its time", text, ["task", "encoding", "s", *phases], rows, left=2)]


def gpu_tables(record: Speed) -> list[Table]:
    g = record.gpu
    if g is None:
        return []
    text = f"On {g.device}, in bf16, with the recipe's batch. Step time of the fastest library model over ours."
    steps = contestants(f"GPU: training step at {g.suite}'s shapes, ms", "Median and quartiles.", g.steps)
    rows = [[f"{p.at_once}", f"{p.step_ms:.2f}", f"{p.evaluate_s:.2f}", f"{p.runs_per_hour:,.0f}"] for p in g.packed]
    packed = (
        f"The suite's first seed by `lprime run`, with fewer steps, several runs at a time as processes. The whole suite, "
        f"{g.runs} runs, would take {60 * g.suite_h:.0f} minutes at the best of these."
    )
    header = ["runs at a time", "step, ms", "evaluation, s", "runs an hour"]
    return [
        ratio_table(f"GPU: how many times as fast as the faster library at {g.suite}'s shapes", text, ratios(g.steps)),
        steps,
        Table("GPU: runs packed", packed, header, rows),
    ]


def all_tables(record: Speed) -> list[Table]:
    sections = (step_tables, evaluation_tables, generator_tables, memory_tables, growth_tables, profile_tables, overhead_tables)
    return [table for section in (*sections, gpu_tables) for table in section(record)]
