"""Shared by the checks of a submission: its files, the data that earlier checks parsed, and the suite's expectations."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

import tasks
from bench.check.checks import Check, Fault, Skipped, register
from bench.result import Result
from bench.runs.executor import Executor
from bench.runs.pool import local_pool
from bench.runs.run import Run
from bench.runs.run_training import build_model
from bench.sealed.request import SealedCode, SealedRequest
from bench.suites.suite import Suite
from bench.training.model import count_parameters
from leaderboard.data.store import line_order
from leaderboard.submission.manifest import Submission

from .read_untrusted import Contents

CHECKS: list[Check] = []
"""Checks that only read data."""
submission_check: Callable[..., Callable] = partial(register, CHECKS)
RERUN_CHECKS: list[Check] = []
"""Checks that run submitted code."""
rerun_check: Callable[..., Callable] = partial(register, RERUN_CHECKS)
ALL = 2**31
"""As a number of runs: every run."""
MAX_SHOWN = 4
"""Most faults listed on one line."""


@dataclass(frozen=True)
class Expected:
    """What a suite expects of the runs of one task, generated from its definition."""

    task: tasks.Task
    train_length: int
    steps: int
    sizes: Mapping[int, Int[np.ndarray, " N"]]
    """Test length → answer tokens of each test example."""
    data_hash: str
    parameters: int
    """Parameters of the model without an encoding."""


def local_executor(name: str, code: SealedCode, workers: int | None) -> Executor:
    """Sealed runs in processes of this machine."""
    return local_pool(workers, "cpu", request=lambda run: SealedRequest.of_run(run, code), keep_weights=())


@dataclass(frozen=True)
class RerunOptions:
    """Options of the checks that run submitted code.

    Arguments:
        rerun: number of runs, chosen at random, to compare with the submitted ones; ``ALL``: every run.
        fresh: test these runs, or one per task, on newly drawn examples too.
        seed: of the choice and of the new examples.
        workers: processes; None: as many as the executor takes.
        time_limit_s: of a run; None: see ``rerun.EXTRA_TIME_S``.
        say: called with progress messages.
        unsafe: run the code without a sandbox.
        out: folder of the recomputed results, as for ``lprime run``.
        executor: takes the encoding's name, its code and a number of workers.
    """

    rerun: int
    fresh: bool
    seed: int
    workers: int | None = None
    time_limit_s: float | None = None
    say: Callable[[str], None] = lambda text: None
    unsafe: bool = False
    out: Path = Path("runs")
    executor: Callable[[str, SealedCode, int | None], Executor] = local_executor

    def choose(self, results: Sequence[Result]) -> list[Result]:
        """The results whose runs are made again, in the order of published results."""
        draw = random.Random(self.seed)
        if self.rerun:
            chosen = draw.sample(list(results), min(self.rerun, len(results)))
        else:
            tasks = sorted({r.task for r in results})
            chosen = [draw.choice([r for r in results if r.task == task]) for task in tasks]
        return sorted(chosen, key=line_order)

    @property
    def test_seed(self) -> int:
        """Seed of the new test sets; suites are unlikely to have it."""
        return random.Random(f"test sets {self.seed}").randrange(2**40, 2**41)


NO_RERUN = RerunOptions(rerun=0, fresh=False, seed=0)


@dataclass
class SubmissionData:
    """A submission's files as data.

    Arguments:
        name: of its folder.
        given_suite: the suite to verify it against; by default the shipped one that it names.
        published: runs on the board, which must not be copied.
        rerun: what to run again.
        archived: folders of the archived boards, whose runs also show how much seeds differ.
        parsed: data parsed by earlier checks: ``submission``, ``results`` and ``suite``.
    """

    name: str
    contents: Contents
    given_suite: Suite | None = None
    published: Sequence[Result] = ()
    rerun: RerunOptions = NO_RERUN
    archived: Sequence[Path] = ()
    parsed: dict[str, Any] = field(default_factory=dict)

    def require(self, check: str) -> Any:
        """The data that a check has parsed.

        Raises:
            Skipped: that check failed.
        """
        if check not in self.parsed:
            raise Skipped(f"{check} did not pass")
        return self.parsed[check]

    @property
    def submission(self) -> Submission:
        return self.require("submission")

    @property
    def results(self) -> list[Result]:
        return self.require("results")

    @property
    def suite(self) -> Suite:
        return self.require("suite")

    @property
    def by_task(self) -> dict[str, list[Result]]:
        """The runs of each task of the suite, by seed."""
        by_seed = sorted(self.results, key=lambda r: r.seed)
        return {spec.task: [r for r in by_seed if r.task == spec.task] for spec in self.suite.tasks}

    @cached_property
    def expected(self) -> dict[str, Expected]:
        """Task → the expectations for its runs."""
        return {spec.task: self.expected_of(spec.task) for spec in self.suite.tasks}

    @property
    def pairs(self) -> list[tuple[Result, Expected]]:
        """The runs of the suite's tasks, each with its expectations."""
        return [(run, self.expected[task]) for task, runs in self.by_task.items() for run in runs]

    def expected_of(self, name: str) -> Expected:
        suite, test_sets = self.suite, self.suite.test_sets(name)
        return Expected(
            suite.make_task(name),
            suite.spec(name).train_length,
            suite.recipe_for(name).steps,
            {length: examples.targets.sum(1) for length, examples in test_sets.items()},
            tasks.content_hash(test_sets.values()),
            count_parameters(build_model(Run(suite, name, "nope", 0))),
        )


def label(run: Result) -> str:
    return f"{run.task} seed {run.seed}"


def raise_faults(faults: Sequence[str]) -> None:
    """Raise a ``Fault`` with the first of the faults and the number of the others, if there are any."""
    if faults:
        rest = len(faults) - MAX_SHOWN
        raise Fault("; ".join(faults[:MAX_SHOWN]) + (f"; and {rest} more" if rest > 0 else ""))
