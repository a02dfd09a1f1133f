"""How long a run will take: what runs of the task took before, or a guess from its arithmetic. Jobs are cut by it."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.results import RESULT, read_result
from bench.runs import Run
from bench.suite import Suite
from tasks import InputError

CPU_FLOPS, GPU_FLOPS = 4e10, 1e13
"""Arithmetic a second that a step reaches: on one core of bench/SPEED.md, and a guess for a GPU."""
GPU_STEP_S = 0.008
"""A GPU's step of a small model takes at least this long, whatever its arithmetic: a guess."""
ENOUGH = 20
"""Results of a task that are read."""


class Estimate:
    """Seconds of a run, by task."""

    def __init__(self, suite: Suite, out: Path, device: str):
        self.suite, self.out, self.device = suite, out, device
        self.known = {spec.task: self.measured(spec.task) for spec in suite.tasks}

    def measured(self, task: str) -> float | None:
        """Median over results of the same kind of device, if there are any."""
        found = []
        for path in (self.out / self.suite.name / task).glob(f"*/seed-*/{RESULT}"):
            try:
                result = read_result(path)
            except InputError:
                continue  # whoever needs that very result will say so
            if result.fingerprint == self.suite.fingerprint and result.device.startswith("cpu") == (self.device == "cpu"):
                found.append(result.timings.total_s)
            if len(found) == ENOUGH:
                break
        return statistics.median(found) if found else None

    def guess(self, task: str) -> float:
        """From the arithmetic of training and testing."""
        from bench.speed.flops import step_flops

        made, spec, recipe = self.suite.make_task(task), self.suite.spec(task), self.suite.recipe_for(task)
        rate = CPU_FLOPS if self.device == "cpu" else GPU_FLOPS
        symbols = len(made.vocabulary.symbols)

        def flops(lengths: Sequence[int]) -> float:
            """Of one example's step, mean over lengths."""
            sizes = [made.tokens(length) for length in lengths]
            return step_flops(self.suite.model, symbols, sizes, sum(sizes) // 2) / len(sizes)

        step = recipe.batch * flops(range(1, spec.train_length + 1)) / rate
        test = self.suite.test_lengths(task)
        evaluation = len(test) * self.suite.test_examples * flops(test) / 3 / rate
        return recipe.steps * max(step, GPU_STEP_S if self.device == "cuda" else 0) + evaluation

    def seconds(self, run: Run) -> float:
        known = self.known[run.task]
        if known is None:
            known = self.known[run.task] = self.guess(run.task)
            self.guessed = True
        return known

    guessed = False
    """Whether any answer was a guess."""
