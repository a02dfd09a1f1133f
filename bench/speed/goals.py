"""Goals for the speed, each with what was measured."""

import statistics
from collections.abc import Iterator

from .record import Speed
from .tables import Table, format_factor, speedups

STEP, GENERATE, BIAS, SLOW, MEMORY = 1.5, 2.0, 1.2, 1.6, 1.2
Row = tuple[str, str, str, str]


def goals_table(record: Speed) -> list[Table]:
    """The goals whose sections were measured."""
    rows = list(goals(record))
    header = ["what", "goal", "measured", "met"]
    return [Table("Goals", "Numbers of the sections below.", header, rows, left=4)] if rows else []


def goals(record: Speed) -> Iterator[Row]:
    small = [row for row in record.steps if row.suite == "small"] or record.steps
    for what, goal, rows in (
        ("training step: faster library over ours, mean over tasks", STEP, speedups(small)),
        ("exact match at L′: `generate()` over ours, mean over tasks", GENERATE, speedups(record.evaluation)),
    ):
        if rows:
            means = {name: statistics.geometric_mean(row.values()) for name, row in rows.items()}
            measured = ", ".join(f"{name} {format_factor(value)}" for name, value in means.items())
            yield what, f"at least {format_factor(goal)} for each", measured, yes(min(means.values()) >= goal)
    for what, goal, costs in (
        ("evaluation at L′ of every encoding with a bias, over NoPE's", BIAS,
         {row.encoding: row.evaluation for row in record.growth if row.biases}),
        ("training step of every encoding, over NoPE's", SLOW, {row.encoding: row.step for row in record.growth}),
    ):  # fmt: skip
        if costs:
            slow = [f"{name} {format_factor(value)}" for name, value in sorted(costs.items()) if value > goal]
            measured = f"{len(costs) - len(slow)} of {len(costs)}" + (f"; not {', '.join(slow)}" if slow else "")
            yield what, f"at most {format_factor(goal)}", measured, yes(not slow)
    long = [row.mb for row in record.memory if row.what == "long training"]
    if long:
        growth = [last / first for first, last in zip(long[::2], long[1::2], strict=True)]
        measured = ", ".join(map(format_factor, growth))
        yield (
            "peak memory of a long training, last over first",
            f"at most {format_factor(MEMORY)}",
            measured,
            yes(max(growth) <= MEMORY),
        )


def yes(met: bool) -> str:
    return "yes" if met else "**no**"
