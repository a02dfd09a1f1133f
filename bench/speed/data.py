"""Generators: ours, vectorised, against a loop in Python; and the share of a training step that data takes."""

import random
from collections.abc import Callable

import tasks
from bench.suite import load_suite

from . import plain
from .ours import Trainee, lay_out, training_batch
from .plan import Plan
from .record import Generators, Spread
from .timing import interleave

SUITE = "small"
STEPS = 16
"""Training steps a turn: generators may draw for several steps at once."""


def measure(plan: Plan, say: Callable[[str], None]) -> list[Generators]:
    say(f"generators: {SUITE}")
    return [row for task in plan.tasks for row in one_task(task, plan)]


def one_task(name: str, plan: Plan) -> list[Generators]:
    suite = load_suite(SUITE)
    task, size, length = suite.make_task(name), suite.recipe_for(name).batch, suite.spec(name).train_length
    count, rng = plan.test_examples or suite.test_examples, random.Random(0)
    trainee, typical = Trainee(suite, name, "nope"), training_batch(suite, name, size, 0)

    def ours_training(turn: int) -> None:
        for step in range(turn * STEPS, (turn + 1) * STEPS):
            tasks.train_batch(task, length, size, 0, step)

    def plain_training(turn: int) -> None:
        for _ in range(STEPS):
            plain.train_batch(task, length, size, rng)

    contestants: dict[str, Callable[[int], object]] = {
        "ours training": ours_training,
        "plain training": plain_training,
        # Another test seed each turn: nothing that was drawn once can be handed out again.
        "ours test": lambda turn: tasks.test_set(task, task.longest, count, turn),
        "plain test": lambda turn: plain.sample(task, [task.longest] * count, rng),
        "step": lambda turn: trainee.step(typical),
        "layout": lambda turn: lay_out(typical),
    }
    times = interleave(contestants, lambda turn: turn + 1, plan.generators, 0)
    drawing, layout, step = (Spread.of(times[key]).median for key in ("ours training", "layout", "step"))
    drawing /= STEPS
    per = {"training": STEPS * size, "test": count}
    return [
        Generators(
            task=name,
            what=what,  # type: ignore[arg-type]
            length=length if what == "training" else task.longest,
            ours_us=Spread.of(times[f"ours {what}"], 1e6 / examples),
            plain_us=Spread.of(times[f"plain {what}"], 1e6 / examples),
            step_share=(drawing + layout) / (drawing + step) if what == "training" else None,
        )
        for what, examples in per.items()
    ]
