"""Estimated time of a run: from earlier results of its task, or guessed from its FLOPs."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.result import RESULT, read_result
from bench.runs.run import Run
from bench.runs.shared_training import steps_to_make
from bench.suites.suite import ModelSpec, Suite
from tasks import InputError

CPU_FLOPS, GPU_FLOPS = 4e10, 1e13
"""FLOP/s of a training step: measured on one core of an AMD EPYC, guessed for a GPU."""
GPU_STEP_S = 0.008
"""Minimum step time on a GPU, however small the model: a guess."""
MOST_RESULTS = 20
"""Maximum number of results read per task."""


class Estimate:
    """Estimated seconds of a run; equal for all runs of a task, except for those whose training is made by another run."""

    guessed = False
    """Whether any estimate so far was guessed from FLOPs."""

    def __init__(self, suite: Suite, out: Path, device: str):
        self.suite, self.out, self.device = suite, out, device
        self.evaluation: dict[str, float] = {}
        """By task: estimated seconds of the evaluation."""
        self.by_task = {spec.task: self.measured_seconds(spec.task) for spec in suite.tasks}

    def measured_seconds(self, task: str) -> float | None:
        """Median over results of the same kind of device whose runs made their own training; None without results."""
        seconds, evaluation = [], []
        for path in (self.out / self.suite.name / task).glob(f"*/seed-*/{RESULT}"):
            try:
                result = read_result(path)
            except InputError:
                continue  # reported by the command that needs this result
            same_device = result.device.startswith("cpu") == (self.device == "cpu")
            if result.fingerprint == self.suite.fingerprint and same_device and not result.trained_as:
                seconds.append(result.timings.total_s)
                evaluation.append(result.timings.evaluate_s)
            if len(seconds) == MOST_RESULTS:
                break
        if not seconds:
            return None
        self.evaluation[task] = statistics.median(evaluation)
        return statistics.median(seconds)

    def guess_seconds(self, task: str) -> float:
        """Estimate from the FLOPs of training and evaluation."""
        generator, spec, recipe = self.suite.make_task(task), self.suite.spec(task), self.suite.recipe_for(task)
        rate = CPU_FLOPS if self.device == "cpu" else GPU_FLOPS
        symbols = len(generator.vocabulary.symbols)

        def flops(lengths: Sequence[int]) -> float:
            """FLOPs of one example's step, mean over lengths."""
            sizes = [generator.tokens(length) for length in lengths]
            return step_flops(self.suite.model, symbols, sizes, sum(sizes) // 2) / len(sizes)

        step = recipe.batch * flops(range(1, spec.train_length + 1)) / rate
        test = self.suite.test_lengths(task)
        self.evaluation[task] = len(test) * self.suite.test_examples * flops(test) / 3 / rate
        return recipe.steps * max(step, GPU_STEP_S if self.device == "cuda" else 0) + self.evaluation[task]

    def seconds_of(self, runs: Sequence[Run]) -> dict[Run, float]:
        """Estimated seconds of runs executed in this order. Those whose training exists by then make only their extra stage, if
        any, and evaluate."""
        estimates = {}
        for run, steps in steps_to_make(runs, self.out).items():
            seconds, evaluation = self.seconds(run), self.evaluation[run.task]
            estimates[run] = evaluation + steps / run.steps * (seconds - evaluation)
        return estimates

    def seconds(self, run: Run) -> float:
        seconds = self.by_task[run.task]
        if seconds is None:
            seconds = self.by_task[run.task] = self.guess_seconds(run.task)
            self.guessed = True
        return seconds


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
