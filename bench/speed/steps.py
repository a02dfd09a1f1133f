"""Training steps: ours and the libraries', on the same examples."""

import math
import time
from collections.abc import Callable
from functools import partial

import torch

from bench.suites.suite import Suite, load_suite
from tasks import Examples

from .libraries import LibraryTraining, library_models
from .plan import Budget, StepPlan
from .record import Spread, Step
from .timing import interleave, log
from .trainee import CPU, Trainee, training_batch

ENCODINGS = ("nope", "learned", "rope", "alibi", "t5")
OURS, UNGRAPHED = "lprime", "lprime, not recorded"
WARM_UP_EXAMPLES = 4
"""Examples of the untimed step on a CPU. CUDA graphs are recorded with the whole batch."""
GPU_TURN = 3
"""Steps of a contestant in a row on a GPU, of which the first is not counted."""
GPU_WARM_UP = 12
"""Untimed steps of ours on a GPU, in which the CUDA graphs of nearly all shapes are recorded and compared."""


def measure_steps(plan: StepPlan) -> list[Step]:
    """Time the training steps of all tasks in the plan."""
    suite = load_suite(plan.suite)
    rows = []
    for task in plan.tasks:
        log(f"training steps: {suite.name}, {task}")
        rows += time_steps(suite, task, plan.budget, plan.examples or suite.recipe_for(task).batch)
    return rows


def time_steps(
    suite: Suite, task: str, budget: Budget, size: int, device: torch.device = CPU,
    failed: dict[str, Exception] | None = None, end: float = math.inf,
) -> list[Step]:  # fmt: skip
    """Time steps of ``size`` examples by every contestant; on a GPU, ours with and without CUDA graphs.

    Arguments:
        failed: receives the errors of libraries' models that cannot be trained, which are left out; None: they are raised.
        end: value of ``time.monotonic()`` from which on no further model of a library is prepared.
    """
    recipe, generator = suite.recipe_for(task), suite.make_task(task)
    on_gpu = device.type == "cuda"
    trainees = {(name, OURS): Trainee(suite, task, name, device) for name in ENCODINGS}
    if on_gpu:
        trainees |= {(name, UNGRAPHED): Trainee(suite, task, name, device, graphs=False) for name in ENCODINGS}
    models = library_models(suite.model, len(generator.vocabulary), generator.tokens(generator.longest), failed)
    others = {(model.encoding, model.who): LibraryTraining(model, recipe, device) for model in models}

    def batch(number: int) -> Examples:
        return training_batch(suite, task, size, number)

    def inputs(examples: Examples) -> dict[tuple[str, str], object]:
        """Of the contestants; on a GPU the time to arrange examples is not counted, because a training loop hides it."""
        return {key: contestant.arrange(examples) if on_gpu else examples for key, contestant in contestants.items()}

    warm_up = batch(0) if on_gpu else batch(0).rows(slice(WARM_UP_EXAMPLES))
    for key in list(others):
        try:
            if time.monotonic() > end:
                raise TimeoutError("no time left")
            others[key].step(warm_up)
        except Exception as error:  # of a library
            if failed is None:
                raise
            failed[", ".join(key)] = error
            del others[key]
    for trainee in trainees.values() if on_gpu else ():
        for number in range(GPU_WARM_UP):
            trainee.step(batch(number))
    contestants = trainees | others
    steps = {key: partial(step_of, key, contestant.step) for key, contestant in contestants.items()}
    wait, turn = (torch.cuda.synchronize, GPU_TURN) if on_gpu else (lambda: None, 1)
    times = interleave(steps, lambda number: inputs(batch(number)), budget, inputs(warm_up), wait, turn)
    return [
        Step(
            suite=suite.name, task=task, encoding=encoding, who=who, examples=size, parameters=contestant.parameters,
            ms=Spread.of(times[encoding, who], 1e3),
        )
        for (encoding, who), contestant in contestants.items()
    ]  # fmt: skip


def step_of(key: tuple[str, str], step: Callable[..., float], given: dict[tuple[str, str], object]) -> float:
    return step(given[key])
