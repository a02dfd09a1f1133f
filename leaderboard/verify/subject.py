"""What is verified: a submission's files as data, and what the suite says of them. Checks have names, as an encoding's do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from jaxtyping import Int

import tasks
from bench.check.report import Report
from bench.check.subject import Check, Skipped, check
from bench.results import Result
from bench.runs import Run
from bench.suite import Suite
from bench.work import build_model, parameters

from ..submission import Submission
from .reading import Contents

CHECKS: list[Check] = []
named: Callable[..., Callable] = partial(check, among=CHECKS)
SHOWN = 4
"""Faults that one line tells of."""


@dataclass(frozen=True)
class Expected:
    """What the suite says of one task, made anew from its recipe."""

    task: tasks.Task
    train_length: int
    steps: int
    sizes: Mapping[int, Int[np.ndarray, " N"]]
    """Test length → answer tokens of each test example."""
    data_hash: str
    parameters: int
    """Of the model without an encoding."""


@dataclass
class Subject:
    """A submission under examination. What a check has made out of its files, later checks go on from.

    Arguments:
        name: of its folder.
        given: the suite to hold it to; by default the shipped one that it names.
        published: runs on the board, which nobody may have copied.
    """

    name: str
    contents: Contents
    given: Suite | None = None
    published: Sequence[Result] = ()
    found: dict[str, Any] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)

    def need(self, what: str, check: str) -> Any:
        """Something that a check makes out of the files.

        Raises:
            Skipped: that check did not.
        """
        if what not in self.found:
            raise Skipped(f"{check} did not pass")
        return self.found[what]

    @property
    def submission(self) -> Submission:
        return self.need("submission", "submission")

    @property
    def results(self) -> list[Result]:
        return self.need("results", "results")

    @property
    def report(self) -> Report:
        return self.need("report", "check report")

    @property
    def suite(self) -> Suite:
        return self.need("suite", "suite")

    @property
    def by_task(self) -> dict[str, list[Result]]:
        """The runs of each task of the suite, by seed."""
        order = sorted(self.results, key=lambda r: r.seed)
        return {spec.task: [r for r in order if r.task == spec.task] for spec in self.suite.tasks}

    @cached_property
    def expected(self) -> dict[str, Expected]:
        """Task → what is expected of its runs."""
        return {spec.task: self.expected_of(spec.task) for spec in self.suite.tasks}

    def expected_of(self, name: str) -> Expected:
        suite, test_sets = self.suite, self.suite.test_sets(name)
        return Expected(
            suite.make_task(name),
            suite.spec(name).train_length,
            suite.recipe_for(name).steps,
            {length: examples.targets.sum(1) for length, examples in test_sets.items()},
            tasks.content_hash(test_sets.values()),
            parameters(build_model(Run(suite, name, "nope", 0))),
        )


def label(run: Result) -> str:
    return f"{run.task} seed {run.seed}"


def listed(faults: Sequence[str]) -> str:
    """Some of the faults, and how many more there are."""
    rest = len(faults) - SHOWN
    return "; ".join(faults[:SHOWN]) + (f"; and {rest} more" if rest > 0 else "")
