"""Checks made here, outside of the processes that run the encoding's code: its source, and a short sealed run."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np

import tasks
from bench.runs.run import Run
from bench.sealed.process import Code, SealedError
from bench.sealed.run import SealedRun, run_sealed
from bench.suites.suite import Suite, load_suite, validated
from tasks import Task

from .checks import CHECKS, Blocking, Fault, Skipped, register
from .source_rules import ALLOWED_IMPORTS, source_faults

judged_check = partial(register, CHECKS, judged=True)
STEPS, LENGTH = 200, 4
LEARNED = 0.5
"""The loss must fall below this share of ``blind_loss``. NoPE reaches 0.14."""


@cache
def short_suite() -> Suite:
    """Copying with two layers of the suite ``small``: a training of seconds, tests at every length in batches of a real run."""
    small = load_suite("small").model_dump()
    return validated(Suite, small | {
        "name": "check", "test_at": [n / LENGTH for n in range(1, 2 * LENGTH + 1)], "test_examples": 96, "vary": None,
        "model": small["model"] | {"layers": 2},
        "recipe": small["recipe"] | {"steps": STEPS, "batch": 32, "warmup_steps": STEPS // 10},
        "tasks": [{"task": "copying", "variant": "repeat", "train_length": LENGTH}],
    }, "short run of lprime check")  # fmt: skip


@dataclass
class Judged:
    """What the judge knows of the code: where it is, and the text of its files."""

    name: str
    code: Code
    sources: Sequence[Mapping[str, bytes]] = ()
    """Files of each plugin in the name, by path."""

    @cached_property
    def run(self) -> SealedRun:
        suite = short_suite()
        try:
            return run_sealed(Run(suite, suite.tasks[0].task, self.name, 0), self.code)
        except SealedError as error:
            raise Blocking(f"the sealed run ended: {error}", "fix this first") from None


@judged_check(
    "source",
    expected=f"text that shows what it does: imports only of {ALLOWED_IMPORTS}; no exec, eval, getattr, frames or names with "
    "two leading underscores; only attributes of self are assigned; ASCII outside of comments, docstrings, info and errors; "
    "neither long lines nor many numbers or strings",
    advice="rewrite these lines: hooks compute with their arguments, torch and numbers in the source",
)
def check_source(judged: Judged) -> str:
    faults = [fault for files in judged.sources for fault in source_faults(files)]
    if faults:
        raise Fault("; ".join(faults[:5]) + (f"; and {len(faults) - 5} more" if len(faults) > 5 else ""))
    count = sum(map(len, judged.sources))
    return f"{count} file{'s' * (count != 1)} follow{'s' * (count == 1)} the rules" if count else "built in"


@judged_check(
    "learning",
    expected=f"in {STEPS} steps of copying up to {LENGTH} symbols, the loss falls below {LEARNED:.0%} of what a model that "
    "ignores the prompt reaches",
    advice="check that attention reaches all earlier positions at the start, and that scores are neither huge nor all equal",
)
def check_learning(judged: Judged) -> str:
    run, suite = judged.run, short_suite()
    if run.status == "diverged":
        raise Fault(f"the loss is not finite at step {run.steps}")
    # Losses of an extra stage do not count: they may be on longer sequences.
    losses = [loss for step, loss in run.loss if step <= suite.recipe.steps]
    blind = blind_loss(suite.make_task(suite.tasks[0].task))
    outcome = f"the loss went from {losses[0]:.2f} to {losses[-1]:.2f} in {suite.recipe.steps} steps; {blind:.2f} is reached "
    outcome += "without the prompt"
    if not losses[-1] < LEARNED * blind:
        raise Fault(outcome)
    return outcome


@judged_check(
    "sealed run",
    expected="the trained model predicts the same with and without the answers in view, and in the process that trained it as "
    "in a new one; the gradients are those of its loss",
    advice="an output at one place uses later tokens, remembers earlier passes, or `backward` is not the derivative of "
    "`forward`; with trained weights, which differ from those of the other checks",
)
def check_sealed_run(judged: Judged) -> str:
    run = judged.run
    if run.status == "diverged":
        raise Skipped("the training diverged")
    if run.audit:
        raise Fault("; ".join(run.audit[:4]))
    return f"no difference at {len(run.scores)} lengths of {run.scores[0].count} examples, nor in gradients of training"


def blind_loss(task: Task) -> float:
    """Cross-entropy, in nats, of the best prediction from a token's position in the answer, without the prompt."""
    examples = tasks.train_batch(task, LENGTH, 4096, 1, 0)
    seen: dict[int, Counter[int]] = defaultdict(Counter)
    for row, column in zip(*np.nonzero(examples.targets), strict=True):
        seen[int(column - examples.answer_start[row])][int(examples.tokens[row, column])] += 1
    total = sum(counts.total() for counts in seen.values())
    return -sum(n * math.log(n / counts.total()) for counts in seen.values() for n in counts.values()) / total
