"""A run: one task, one encoding, one learning rate and one seed of a suite.

Its state is read from the files in its folder and nowhere else.

::

    <out>/<suite>/<task>/<encoding>/seed-<n>/         or seed-<n>-rate-<r>, if the suite sweeps the learning rate
        result.json               finished
        failure.json              failed; run again only with --retry-failed
        checkpoint.safetensors    started
        weights.safetensors       its training is finished, and shared or kept (--keep-weights)
        README.md                 what these weights are
        lock                      held by the process that works on it
        training.lock             held by the process that trains it, perhaps for a run that shares its training
        heartbeat.json            step and speed of that process
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import BaseModel

from bench.files import NotWritten, write_atomic
from bench.result import RESULT, Result, read_json, read_result, run_path
from bench.suites.parts import MOST_SEED, Recipe, check_rate
from bench.suites.suite import Suite
from tasks import InputError, catalogue, find, source_sha256, train_batch

from .run_lock import is_locked

if TYPE_CHECKING:
    from bench.encodings import Encoding

CHECKPOINT = "checkpoint.safetensors"
WEIGHTS = "weights.safetensors"
"""The last checkpoint of a finished training."""
FAILURE = "failure.json"
CHECKPOINT_EVERY_S = 10.0
"""Seconds between checkpoints of a run, unless the user or the cluster file says otherwise."""
RunKey = tuple[str, str, int, float | None]
"""Task, encoding, seed and learning rate."""
State = Literal["done", "diverged", "failed", "running", "queued", "paused", "missing", "unreadable"]
"""``queued``: a job in the queue of a cluster has it."""
FINISHED = ("done", "diverged")
"""States of runs with a result."""


class Standing(NamedTuple):
    """How a run stands. All numbers of its result, of 100,000 runs, would take 3 GB."""

    state: State
    reason: str = ""
    """Why it failed, or why its files cannot be used."""
    steps: int = 0
    """Of a finished run."""
    source_sha256: str = ""
    """Of the encoding of a finished run."""


class Failure(BaseModel):
    """Failure report of a run, ``failure.json``."""

    error: str
    """One line."""
    traceback: str
    finished: str
    """ISO 8601, UTC."""
    fingerprint: str = ""
    """Fingerprint of the suite, if known."""


@dataclass(frozen=True)
class Run:
    """One cell of a suite's grid: task, encoding, seed and learning rate."""

    suite: Suite = field(hash=False)  # holds lists; equality still compares it
    task: str
    encoding: str
    seed: int
    learning_rate: float | None = None
    """None if the suite has only that of its recipe."""

    def __str__(self) -> str:
        rate = "" if self.learning_rate is None else f" rate {self.learning_rate:g}"
        return f"{self.task} {self.encoding} seed {self.seed}{rate}"

    @property
    def key(self) -> RunKey:
        return self.task, self.encoding, self.seed, self.learning_rate

    @property
    def recipe_suite(self) -> Suite:
        """The suite with the learning rate, lengths and steps of this run: all numbers of a run come from it."""
        return self.suite.at(self.seed, self.learning_rate)

    @property
    def train_length(self) -> int:
        """L of this run."""
        return self.recipe_suite.spec(self.task).train_length

    @property
    def recipe(self) -> Recipe:
        return self.recipe_suite.recipe_for(self.task)

    @property
    def path(self) -> str:
        """``<suite>/<task>/<encoding>/seed-<n>``, the folder below the results folder."""
        return run_path(self.suite.name, *self.key)

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that identify the run in its records, except the encoding."""
        suite, spec = self.suite, self.recipe_suite.spec(self.task)
        return {
            "suite": suite.name,
            "suite_version": suite.version,
            "fingerprint": suite.fingerprint,
            "task": self.task,
            "variant": spec.variant,
            "train_length": spec.train_length,
            "seed": self.seed,
            "learning_rate": self.learning_rate,
        }

    @property
    def cls(self) -> "type[Encoding]":
        """The class of its encoding."""
        from bench.plugins.registry import get_encoding  # loads torch

        return get_encoding(self.encoding)

    @property
    def steps(self) -> int:
        return self.recipe.steps

    @property
    def extra_steps(self) -> int:
        """Steps of its encoding's extra stage, which follow those of the recipe."""
        from bench.training.train import stage_steps

        return stage_steps(self.recipe, self.cls.stage)

    def folder(self, out: Path) -> Path:
        return out / self.path

    def result(self, out: Path) -> Result | None:
        """The run's result, or None if it is not finished.

        Raises:
            InputError: the file is damaged, or belongs to another run, another version of the suite or of the task.
        """
        file = f"{out}/{self.path}/{RESULT}"  # Path is slow, and most of a grid of thousands may not exist yet
        if not os.path.exists(file):
            return None
        result = read_result(Path(file), self.path)
        if result.fingerprint != self.suite.fingerprint:
            raise InputError(
                f"{file} was made by suite {self.suite.name} with fingerprint {result.fingerprint}, the suite now has "
                f"{self.suite.fingerprint}; keep the two apart with another --out"
            )
        # Data of files is no source: tasks of one's own may read some, and tasks with settings do.
        fixed = self.task in catalogue() and not self.suite.spec(self.task).settings
        same_source = fixed and result.task_sha256 in ("", source_sha256(find(self.task)))
        if not same_source and result.data_hash != self.recipe_suite.data_hash(self.task, result.test_seed):
            raise InputError(
                f"{file} was tested on other examples than task {self.task} has now; keep the two apart with another --out"
            )
        return result

    def failure(self, out: Path) -> Failure | None:
        """The run's failure report, or None if there is none for this version of the suite.

        Raises:
            InputError: the file is damaged.
        """
        file = f"{out}/{self.path}/{FAILURE}"
        failure = read_json(file, Failure, "is not a failure report", "delete it to run it again")
        return failure if failure and failure.fingerprint in ("", self.suite.fingerprint) else None

    def standing(self, out: Path) -> "Standing":
        """How the run stands, read from its folder; ``unreadable`` if ``result`` or ``failure`` cannot be used."""
        try:
            if result := self.result(out):
                return Standing(result.status, "", result.steps, result.encoding.source_sha256)
            folder = self.folder(out)
            if not folder.exists():
                return Standing("missing")
            if is_locked(folder):
                return Standing("running")
            if failure := self.failure(out):
                return Standing("failed", failure.error)
        except InputError as error:
            return Standing("unreadable", str(error))
        return Standing("paused" if (folder / CHECKPOINT).exists() or (folder / WEIGHTS).exists() else "missing")

    def fail(self, out: Path, error: str, traceback: str = "") -> str:
        """Write the failure report; returns the reason, and why the report could not be written if so.

        Arguments:
            error: the reason, on one line.
        """
        failure = Failure(error=error, traceback=traceback, finished=now(), fingerprint=self.suite.fingerprint)
        try:
            write_atomic(self.folder(out) / FAILURE, failure.model_dump_json(indent=1) + "\n")
        except NotWritten as unwritable:
            return f"{error}; {unwritable}"
        return error


def now() -> str:
    """Current time: ISO 8601, UTC, in seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def plan_runs(
    suite: Suite,
    encodings: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    rates: Sequence[float] | None = None,
) -> list[Run]:
    """The runs of a suite, or of the given part of it: everything of one seed before the next seed.

    Raises:
        InputError: a task that is not in the suite, a bad seed, or a learning rate for a suite that sweeps none. (Encodings are
            checked when they run.)
    """
    if rates and not suite.learning_rates:
        raise InputError(f"suite {suite.name} has one learning rate; expected no other, got {rates[0]!r}")
    for task in tasks or []:
        suite.spec(task)
    for seed in seeds or []:
        check_seed(seed)
    for rate in rates or ():
        check_rate(rate)
    return [
        Run(suite, task, encoding, seed, rate)
        for seed in dict.fromkeys(seeds or suite.seeds)
        for rate in dict.fromkeys([*(rates or suite.learning_rates)] or (None,))
        for task in dict.fromkeys(tasks or [t.task for t in suite.tasks])
        for encoding in dict.fromkeys(encodings or suite.encoding_names)
    ]


def check_data(runs: Sequence[Run]) -> None:
    """Refuse data that cannot be read, or documents shorter than a window, before the first run starts.

    Raises:
        InputError: what is wrong with the data.
    """
    for run in {(run.task, run.train_length): run for run in runs}.values():
        suite = run.recipe_suite
        made, lengths = suite.make_task(run.task), suite.test_lengths(run.task)
        train_batch(made, run.train_length, 1, 0, 0, run.train_length)
        made.test_examples(lengths[-1], 1, suite.test_seed)
        made.further_tests(lengths, run.train_length, suite.test_examples, suite.test_seed)


def check_seed(seed: object) -> None:
    """Refuse a seed that is not an integer in 0 … ``MOST_SEED``, with an ``InputError``."""
    if not isinstance(seed, Integral) or isinstance(seed, bool) or not 0 <= int(seed) <= MOST_SEED:
        raise InputError(f"a seed must be a whole number from 0 to {MOST_SEED}, got {seed!r}")
