"""The page ``GPU.md``, rendered from the measurements alone."""

from collections.abc import Sequence
from typing import TypeVar

from bench.speed.goals import yes
from bench.speed.page import format_table
from bench.speed.record import Step
from bench.speed.tables import Table, format_factor, percent, speedup_table, speedups, time_table
from bench.training.cuda_graphs import TOLERANCE

from .calibration import CEILING, FLOOR, LEARNED
from .equality import BF16_GRADIENT, BF16_LOSS, FP32
from .measurements import Equality, Failure, Grid, Machine, Measurement, Packed, Steps, Trial

M = TypeVar("M", bound=Measurement)
EQUALITY_COLUMNS = {
    "loss": "loss",
    "gradient": "gradient",
    "past_logits": "past L",
    "bf16_loss": "bf16 loss",
    "bf16_gradient": "bf16 gradient",
    "past_bf16_logits": "bf16 past L",
    "graph_loss": "graph loss",
    "graph_gradient": "graph gradient",
}
SPEEDUP, BUSY = 2.0, 0.7
"""Goals: examples a second over the best library's, and the share of a GPU in use."""


def of_kind(found: Sequence[Measurement], kind: type[M]) -> list[M]:
    """The last measurement of each key."""
    return list({m.key: m for m in found if isinstance(m, kind)}.values())


def render(found: Sequence[Measurement]) -> str:
    machines = of_kind(found, Machine)
    smoke = ": **a smoke run on a CPU, its numbers mean nothing**" if any(m.quick for m in machines) else ""
    where = "; ".join(
        f"{m.date}, {m.key}, {m.cores} cores, {', '.join(f'{k} {v}' for k, v in m.versions.items())}" for m in machines
    )
    failed = {
        m.key: m.error
        for n, m in enumerate(found)
        if isinstance(m, Failure) and not any(tuple(m.key.split(" ", 1)) in measured_keys(later) for later in found[n:])
    }
    tables = [*goals(found), *equality_tables(of_kind(found, Equality)), *step_tables(of_kind(found, Steps))]
    tables += [*packed_tables(of_kind(found, Packed)), *trial_tables(of_kind(found, Trial))]
    parts = ["# On a GPU", f"Measured by `python -m bench.gpu`{smoke}: {where}."]
    parts += [part for t in tables for part in (f"## {t.title}", t.text, format_table(t, "pipe"))]
    parts += [
        f"Grid `{m.key}`: {m.done} of {m.asked} runs are done, {m.failed} failed, {m.seconds:.0f} s in the last call."
        for m in of_kind(found, Grid)
    ]
    missing = failed | {f"steps {m.key}, {who}": error for m in of_kind(found, Steps) for who, error in m.left_out.items()}
    parts += ["## Not measured", "\n".join(f"- {what}: {error}" for what, error in missing.items())] if missing else []
    return "\n\n".join(parts) + "\n"


def measured_keys(one: Measurement) -> set[tuple[str, str]]:
    """Kind and key of what was attempted, which may have given several measurements."""
    match one:
        case Packed():
            return {("packed", f"{one.suite}{' mps' * one.mps}")}
        case Trial():
            return {("calibration", "trials")}
        case Steps() if one.key.endswith(" compiled"):
            return {("steps", "compiled")}
    return {(one.kind, one.key)}


def goals(found: Sequence[Measurement]) -> list[Table]:
    rows = []
    if equal := of_kind(found, Equality):
        for what, bound, values in (
            (
                "fp32, loss, gradient and logits past L against the CPU",
                f"at most {FP32:g}",
                {m.key: max(m.loss, m.gradient, m.past_logits) / FP32 for m in equal},
            ),
            (
                "bf16, loss and gradient against fp32",
                f"at most {BF16_LOSS:g} and {BF16_GRADIENT:g}",
                {m.key: max(m.bf16_loss / BF16_LOSS, m.bf16_gradient / BF16_GRADIENT) for m in equal},
            ),
            (
                "if recorded as a CUDA graph, loss and gradient against a step without",
                f"at most {TOLERANCE:g}",
                {
                    m.key: max(m.graph_loss, m.graph_gradient) / TOLERANCE
                    for m in equal
                    if m.graph_loss is not None and m.graph_gradient is not None
                },
            ),
        ):
            over = sorted(name for name, share in values.items() if not share <= 1)
            text = f"{len(values) - len(over)} of {len(values)} encodings{'; not ' * bool(over)}{', '.join(over)}"
            rows.append([what, bound, text, yes(not over)])
    for suite, steps in by_suite(of_kind(found, Steps)).items():
        least = {encoding: min(row.values()) for encoding, row in speedups(steps).items() if row}
        if least:
            text = ", ".join(f"{encoding} {format_factor(ratio)}" for encoding, ratio in least.items())
            bound, met = f"at least {format_factor(SPEEDUP)}", yes(min(least.values()) >= SPEEDUP)
            rows.append([f"step at the shapes of {suite}, over the fastest library's", bound, text, met])
    if busy := [m.busy for m in of_kind(found, Packed) if m.busy is not None]:
        what, bound = "time with a kernel running, with the best number of runs at a time", f"at least {percent(BUSY)}"
        rows.append([what, bound, percent(max(busy)), yes(max(busy) >= BUSY)])
    return [Table("Goals", "Numbers of the sections below.", ["what", "goal", "measured", "met"], rows, left=3)] if rows else []


def equality_tables(found: Sequence[Equality]) -> list[Table]:
    if not found:
        return []
    text = "Largest relative difference over the steps, in the loss and in the gradient of all parameters together. *Graph*: a "
    text += "recorded step against the same step without a graph. *Past L*: logits at the longest test length. "
    text += "Random encodings drew the same numbers on both devices."

    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.1e}"

    rows = [
        [m.key, *(number(getattr(m, name)) for name in EQUALITY_COLUMNS), m.fallback]
        for m in sorted(found, key=lambda m: m.key)
    ]
    header = ["encoding", *EQUALITY_COLUMNS.values(), "no graph because"]
    return [Table("Every encoding against the CPU", text, header, rows)]


def by_suite(found: Sequence[Steps]) -> dict[str, list[Step]]:
    suites: dict[str, list[Step]] = {}
    for measured in found:
        for step in measured.steps:
            suites.setdefault(step.suite, []).append(step)
    return suites


def step_tables(found: Sequence[Steps]) -> list[Table]:
    tables = []
    for suite, steps in by_suite(found).items():
        text = "In bf16, with the recipe's batch. Step time of the fastest library model over ours; compiled or not, by "
        text += "`torch.compile` as it is, which records no CUDA graph."
        tables.append(speedup_table(f"Training step at the shapes of {suite}: speed-up", text, speedups(steps)))
        tables.append(time_table(f"Training step at the shapes of {suite}: ms", "Median and quartiles.", steps))
    return tables


def packed_tables(found: Sequence[Packed]) -> list[Table]:
    text = (
        "Trainings of copying, data included, without evaluation and the start of processes. *Kernel running*: share of the "
        "time in which any kernel runs, however small, by `nvidia-smi`. *Memory*: of all processes, those at rest included."
    )
    rows = [
        [
            m.suite, f"{m.at_once}", "yes" if m.mps else "no", f"{1e3 * m.at_once / m.steps_per_s:.2f}",
            f"{m.steps_per_s:,.0f}", f"{m.runs_per_hour:,.0f}", "–" if m.busy is None else percent(m.busy),
            "–" if m.memory_mb is None else f"{m.memory_mb:,.0f}",
        ]
        for m in found
    ]  # fmt: skip
    header = [
        "suite",
        "runs at a time",
        "MPS",
        "step, ms",
        "steps a second",
        "runs an hour",
        "kernel running",
        "memory, MiB",
    ]
    return [Table("Several runs at a time", text, header, rows)] if rows else []


def trial_tables(found: Sequence[Trial]) -> list[Table]:
    text = "Trials by the criteria of `bench/suites/CALIBRATION.md`. *Learned*: encodings whose mean exact match at l ≤ L is "
    text += f"{LEARNED:g} or more. *Floor*, *ceiling*: shares of the cells with L < l ≤ L′ that score under {FLOOR:g} and "
    text += f"over {CEILING:g}; where there is no L′, up to the least that is allowed."
    rows = []
    for m in found:
        learned = sum(mean >= LEARNED for mean in m.learned.values())
        numbers = [f"{m.train_length}", f"{m.steps:,}", f"{m.seeds}", f"{learned} of {len(m.learned)}"]
        graded = [f"{m.longest}" if m.longest else "–", f"{m.floor:.2f}", f"{m.ceiling:.2f}", "yes" if m.met else "no"]
        rows.append([m.task, *numbers, *graded])
    header = ["task", "L", "steps", "seeds", "learned", "L′", "floor", "ceiling", "meets the criteria"]
    return [Table("Calibration", text, header, rows)] if rows else []
