"""Estimated time of runs, from earlier results of their tasks or guessed from their FLOPs, and ``lprime run --dry-run``."""

import heapq
import statistics
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from bench.result import RESULT, read_result
from bench.suites.parts import ModelSpec
from bench.suites.suite import Suite
from tasks import InputError, plural

from .progress import format_duration
from .run import Run
from .shared_training import steps_to_make

CPU_FLOPS, GPU_FLOPS = 4e10, 1e13
"""FLOP/s of a training step: measured on one core of an AMD EPYC, guessed for a GPU that several runs share. Runs of
``standard``, ten at a time on an H200, took 1.6 times as long as guessed."""
GPU_STEP_S = 0.008
"""Minimum step time on such a GPU, however small the model: a guess."""
MOST_RESULTS = 20
"""Maximum number of results read per task."""


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
        train_s, evaluate_s = times[run.task]
        seconds[run] = evaluate_s + steps / run.steps * train_s
    return Estimate(seconds, guessed=None in measured.values())


def duration(seconds: Sequence[float], at_once: int) -> float:
    """Seconds until all runs have ended, if they start in order, ``at_once`` at a time."""
    ends: list[float] = []
    for takes in seconds:
        heapq.heappush(ends, takes + (heapq.heappop(ends) if len(ends) == at_once else 0.0))
    return max(ends, default=0.0)


def measured_time(suite: Suite, task: str, out: Path, device: str) -> tuple[float, float] | None:
    """Median seconds of training and evaluation over results of the same kind of device whose runs made their own training and
    did not diverge, since those that do stop early; None without results."""
    found = []
    for path in islice((out / suite.name / task).glob(f"*/seed-*/{RESULT}"), MOST_RESULTS):
        try:
            result = read_result(path)
        except InputError:
            continue  # reported by the command that needs this result
        same_device = result.device.startswith("cpu") == (device == "cpu")
        whole = result.status == "done" and not result.trained_as
        if result.fingerprint == suite.fingerprint and same_device and whole:
            found.append(result.timings)
    if not found:
        return None
    evaluate_s = statistics.median(t.evaluate_s for t in found)
    return statistics.median(t.total_s for t in found) - evaluate_s, evaluate_s


def guessed_time(suite: Suite, task: str, device: str) -> tuple[float, float]:
    """Seconds of training and evaluation, estimated from their FLOPs."""
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
    return recipe.steps * max(step, GPU_STEP_S if device == "cuda" else 0), evaluate_s


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


def local_dry_run(runs: Sequence[Run], out: Path, device: str, workers: int) -> list[str]:
    """What would run on this machine, as lines of text. Nothing is written.

    Arguments:
        runs: of one suite.
    """
    found = estimate(runs, out, device)
    total, at_once, name = duration(list(found.seconds.values()), workers), min(workers, len(runs)), runs[0].suite.name
    return [
        f"{plural(len(runs), 'run')} of suite {name} on this machine ({device}), results under {out / name}",
        time_of_a_run(found),
        f"about {span(total)} with {at_once} at a time",
    ]


def time_of_a_run(found: Estimate) -> str:
    """The shortest and the longest estimated time, and their basis."""
    shortest, longest = span(min(found.seconds.values())), span(max(found.seconds.values()))
    basis = "guessed from the FLOPs" if found.guessed else "from finished runs of the same tasks"
    return f"a run takes {shortest if shortest == longest else f'{shortest} to {longest}'} ({basis})"


def span(seconds: float) -> str:
    """``8 s``, ``2:03 minutes`` or ``6:10 hours``; at least ``1 s``, since no estimate is finer."""
    if seconds < 59.5:
        return f"{max(1, round(seconds))} s"
    if seconds < 3599.5:
        return f"{format_duration(seconds)} minutes"
    return f"{format_duration(60 * round(seconds / 60)).removesuffix(':00')} hours"
