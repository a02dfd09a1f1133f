"""Estimated time of runs: from earlier results of their tasks, or guessed from their FLOPs."""

import heapq
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.result import RESULT, read_result
from bench.suites.parts import ModelSpec
from bench.suites.suite import Suite
from tasks import InputError

from .run import Run
from .shared_training import steps_to_make

CPU_FLOPS, GPU_FLOPS = 4e10, 1e13
"""FLOP/s of a training step: measured on one core of an AMD EPYC, guessed for a GPU that several runs share. Runs of
``standard``, ten at a time on an H200, took 1.6 times as long as guessed."""
GPU_STEP_S = 0.008
"""Minimum step time on such a GPU, however small the model: a guess."""
MOST_RESULTS = 20
"""Maximum number of results read per task."""


class TaskTime(NamedTuple):
    """Seconds of a run of one task that makes its own training."""

    total_s: float
    evaluate_s: float


class Estimate(NamedTuple):
    seconds: dict[Run, float]
    """Estimated seconds of each run."""
    guessed: bool
    """Whether the time of a task was guessed from its FLOPs, for lack of results."""


def estimate(runs: Sequence[Run], out: Path, device: str) -> Estimate:
    """Estimate the time of runs of one suite, executed in this order. Those whose training exists by then make only their extra
    stage, if any, and evaluate."""
    suite = runs[0].suite
    measured = {task: measured_time(suite, task, out, device) for task in dict.fromkeys(run.task for run in runs)}
    times = {task: time or guessed_time(suite, task, device) for task, time in measured.items()}
    seconds = {}
    for run, steps in steps_to_make(runs, out).items():
        time = times[run.task]
        seconds[run] = time.evaluate_s + steps / run.steps * (time.total_s - time.evaluate_s)
    return Estimate(seconds, guessed=None in measured.values())


def duration(seconds: Sequence[float], at_once: int) -> float:
    """Seconds until all runs have ended, if they start in order, ``at_once`` at a time."""
    ends: list[float] = []
    for takes in seconds:
        heapq.heappush(ends, takes + (heapq.heappop(ends) if len(ends) == at_once else 0.0))
    return max(ends, default=0.0)


def measured_time(suite: Suite, task: str, out: Path, device: str) -> TaskTime | None:
    """Medians over results of the same kind of device whose runs made their own training and did not diverge, since those that
    do stop early; None without results."""
    found = []
    for path in (out / suite.name / task).glob(f"*/seed-*/{RESULT}"):
        try:
            result = read_result(path)
        except InputError:
            continue  # reported by the command that needs this result
        same_device = result.device.startswith("cpu") == (device == "cpu")
        whole = result.status == "done" and not result.trained_as
        if result.fingerprint == suite.fingerprint and same_device and whole:
            found.append(result.timings)
        if len(found) == MOST_RESULTS:
            break
    if not found:
        return None
    return TaskTime(statistics.median(t.total_s for t in found), statistics.median(t.evaluate_s for t in found))


def guessed_time(suite: Suite, task: str, device: str) -> TaskTime:
    """Estimate from the FLOPs of training and evaluation."""
    generator, spec, recipe = suite.make_task(task), suite.spec(task), suite.recipe_for(task)  # of a block without factors
    rate = CPU_FLOPS if device == "cpu" else GPU_FLOPS
    symbols = len(generator.vocabulary.symbols)

    def flops(lengths: Sequence[int]) -> float:
        """FLOPs of one example's step, mean over lengths."""
        sizes = [generator.tokens(length) for length in lengths]
        return step_flops(suite.model, symbols, sizes, sum(sizes) // 2) / len(sizes)

    step = recipe.batch * flops(range(1, spec.train_length + 1)) / rate
    test = suite.test_lengths(task)
    evaluate_s = len(test) * suite.test_examples * flops(test) / 3 / rate
    return TaskTime(recipe.steps * max(step, GPU_STEP_S if device == "cuda" else 0) + evaluate_s, evaluate_s)


def step_flops(spec: ModelSpec, symbols: int, sizes: Sequence[int], answers: int) -> int:
    """FLOPs of the matrix products of one forward and backward pass; the backward pass counts as two forward passes.

    Arguments:
        symbols: size of the vocabulary.
        sizes: tokens of each example, without padding.
        answers: positions at which logits are computed.
    """
    linear = 2 * sum(sizes) * (4 * spec.width**2 + 2 * spec.width * spec.mlp_width)  # q, k, v, output and the two of the MLP
    attention = sum(2 * 2 * size**2 * spec.width for size in sizes)  # q·k and weights·v over all heads, later keys included
    return 3 * (spec.layers * (linear + attention) + 2 * answers * spec.width * symbols)
