"""Generators: ours, vectorised, against loops in Python; and the share of a training step that data takes."""

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

    def ours_training(turn: int, seed: int, then: Callable[[tasks.Examples], object]) -> None:
        for step in range(turn * STEPS, (turn + 1) * STEPS):
            then(tasks.train_batch(task, length, size, seed, step))

    def ours_test(turn: int, seed: int, then: Callable[[tasks.Examples], object]) -> None:
        # Another test seed each turn: nothing that was drawn once can be handed out again.
        then(tasks.test_set(task, task.longest, count, 2 * turn + seed))

    contestants: dict[tuple[str, str], Callable[[int], object]] = {
        ("ours", "training"): lambda turn: ours_training(turn, 0, lambda examples: None),
        ("ours, tensors", "training"): lambda turn: ours_training(turn, 1, plain.tensors),
        ("ours", "test"): lambda turn: ours_test(turn, 0, lambda examples: None),
        ("ours, tensors", "test"): lambda turn: ours_test(turn, 1, plain.tensors),
        ("step", ""): lambda turn: trainee.step(typical),
        ("layout", ""): lambda turn: lay_out(typical),
    }
    for way, make in plain.WAYS.items():
        # One step, not STEPS of them: theirs are as fast one by one.
        contestants[way, "training"] = theirs(make(task), lambda: plain.train_lengths(length, size, rng), rng)
        contestants[way, "test"] = theirs(make(task), lambda: [task.longest] * count, rng)
    times = interleave(contestants, lambda turn: turn + 1, plan.generators, 0)
    drawing, layout, step = (Spread.of(times[key]).median for key in (("ours", "training"), ("layout", ""), ("step", "")))
    drawing /= STEPS
    examples = {"training": size, "test": count}
    return [
        Generators(
            task=name,
            what=what,  # type: ignore[arg-type]
            length=length if what == "training" else task.longest,
            ours_us=Spread.of(times["ours", what], 1e6 / (many * (STEPS if what == "training" else 1))),
            ours_tensors_us=Spread.of(times["ours, tensors", what], 1e6 / (many * (STEPS if what == "training" else 1))),
            theirs_us={way: Spread.of(times[way, what], 1e6 / many) for way in plain.WAYS},
            step_share=(drawing + layout) / (drawing + step) if what == "training" else None,
        )
        for what, many in examples.items()
    ]


def theirs(draw: plain.Way, lengths: Callable[[], list[int]], rng: random.Random) -> Callable[[int], object]:
    return lambda turn: draw(lengths(), rng)
