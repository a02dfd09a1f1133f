"""Time of runs, guessed from their FLOPs, for ``lprime run --dry-run``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.suites.parts import ModelSpec
from bench.suites.suite import Suite

from .progress import format_duration
from .run import Run
from .shared_training import is_trained, training_run

CPU_FLOPS, GPU_FLOPS = 2.5e10, 1e13
"""FLOP/s of a training step: measured on one core of an Intel Xeon at width 64 (4e10 at width 128) while the other core trains
too, guessed for a GPU that several runs share. Runs of ``standard``, ten at a time on an H200, took 1.6 times as long as
guessed."""
GPU_STEP_S = 0.008
"""Minimum step time on such a GPU, however small the model: a guess."""


def estimate(runs: Sequence[Run], out: Path, device: str) -> dict[Run, float]:
    """Guess the seconds of each run of one suite, if they are executed in this order. Those whose training exists by then make
    only their extra stage, if any, and evaluate."""
    seconds: dict[Run, float] = {}
    trainings: set[Run] = set()
    times = {task: guessed_time(runs[0].suite, task, device) for task in dict.fromkeys(run.task for run in runs)}
    for run in runs:
        train_s, evaluate_s = times[run.task]
        shared = (training := training_run(run)) in trainings or is_trained(run, out)
        seconds[run] = evaluate_s + train_s * (run.extra_steps / run.steps if shared else 1)
        trainings.add(training)
    return seconds


def duration(seconds: Sequence[float], at_once: int) -> float:
    """About how many seconds runs take, ``at_once`` at a time."""
    return max([sum(seconds) / at_once, *seconds])


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


def time_of_a_run(seconds: Mapping[Run, float]) -> str:
    """The shortest and the longest guessed time."""
    shortest, longest = format_duration(min(seconds.values())), format_duration(max(seconds.values()))
    times = shortest if shortest == longest else f"{shortest} to {longest}"
    return f"a run takes {times} (guessed from its FLOPs; with the slowest encodings some four times that)"
