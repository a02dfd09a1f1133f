"""What the shared folder knows of the jobs that were submitted; nothing else knows anything.

::

    <out>/<suite>/.slurm/
        lock                     held while jobs are submitted, by the launcher and by sbatch itself
        <token>/                 one submission: an array of jobs
            plan.json            the runs, cut into one share a job
            job.json             SLURM's id of the array, once sbatch has answered
            progress/<n>.json    how far the job with share n is, in its own words
            <id>_<n>_0_log.out   what it printed; beside it what submitit needs
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from bench.files import write_atomic
from bench.results import first_fault
from bench.runs import Run
from bench.suite import Suite
from bench.worker import Order
from tasks import InputError

from .cluster import Cluster

HOME, LOCK, PLAN, JOB, PROGRESS = ".slurm", "lock", "plan.json", "job.json", "progress"
LOCK_WAIT_S = 120.0


class Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


R = TypeVar("R", bound=Record)


class Source(Record):
    """Where an encoding is found on a node, and what its source was at submission."""

    plugins: list[str]
    sha256: str


class Plan(Record):
    """One submission. Jobs read it on their nodes; their pickles hold its path alone."""

    format: Literal[1] = 1
    token: str
    """Unique; the jobs' name ends with it."""
    created: str
    user: str
    """Whose jobs they are: several may share a folder."""
    out: str
    suite: Suite
    cluster: Cluster
    sources: dict[str, Source]
    """By encoding."""
    runs: list[tuple[str, str, int]]
    """Task, encoding, seed."""
    failed_before: list[str]
    """By run: when the failure was reported that this submission is to mend; empty where there is none."""
    shares: list[list[int]]
    """By job: places in ``runs``."""

    @property
    def name(self) -> str:
        """Of the jobs."""
        return f"{prefix(self.suite.name)}{self.token}"

    def run(self, place: int) -> Run:
        return Run(self.suite, *self.runs[place])

    @property
    def all_runs(self) -> list[Run]:
        return [self.run(place) for place in range(len(self.runs))]

    def order(self, run: Run) -> Order:
        """What a worker is handed: sources as they were at submission."""
        source = self.sources[run.encoding]
        return Order(self.suite_json, run.task, run.encoding, run.seed, tuple(source.plugins), source.sha256)

    @cached_property
    def suite_json(self) -> str:
        return self.suite.model_dump_json()

    def failed(self, place: int) -> bool:
        """Has a run broken in this submission? A failure of an earlier one does not count."""
        failure = self.run(place).failure(Path(self.out))
        return failure is not None and failure.finished != self.failed_before[place]


class Job(Record):
    """The array's id in SLURM."""

    id: str


class Beat(Record):
    """One run, as the job that is at it says."""

    run: tuple[str, str, int]
    step: int
    rate: float
    """Training steps a second."""


class Progress(Record):
    """How far a job is."""

    job: str
    node: str
    starts: int
    """How often the job has started: requeued jobs start again."""
    idle_starts: int
    """How many of the last starts, this one included, have made no step so far."""
    at: float
    """When this was written, Unix time."""
    beats: list[Beat]


class Submission:
    """One folder below ``.slurm``."""

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def plan(self) -> Plan:
        return read(self.folder / PLAN, Plan)

    @property
    def job(self) -> str | None:
        """SLURM's id of the array, or None as long as nobody has written it down."""
        path = self.folder / JOB
        return read(path, Job).id if path.exists() else None

    def job_of(self, share: int) -> str:
        """Name of one job in SLURM: ``123_4``, or ``123`` where there is but one."""
        return f"{self.job}_{share}" if len(self.plan.shares) > 1 else str(self.job)

    def logs(self, share: int) -> list[Path]:
        """What a job printed, ordinary output first."""
        return [self.folder / f"{self.job_of(share)}_0_log.{kind}" for kind in ("out", "err")]

    def progress(self, share: int) -> Progress | None:
        try:
            return read(self.folder / PROGRESS / f"{share}.json", Progress)
        except InputError:
            return None  # not begun, or its folder was taken away: the results tell

    def write_job(self, name: str) -> None:
        write_atomic(self.folder / JOB, Job(id=name).model_dump_json() + "\n")

    def write_progress(self, share: int, progress: Progress) -> None:
        write_atomic(self.folder / PROGRESS / f"{share}.json", progress.model_dump_json() + "\n")


def read(path: Path, kind: type[R]) -> R:
    """Read one of our files.

    Raises:
        InputError: it cannot be read or is damaged.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except ValidationError as error:
        raise InputError(
            f"{path} is damaged ({first_fault(error)}); cancel its jobs, if any, and delete {path.parent}"
        ) from None


def prefix(suite: str) -> str:
    """How the names of a suite's jobs begin."""
    return f"lprime-{suite}-"


def home(out: Path, suite: str) -> Path:
    return out / suite / HOME


def submissions(out: Path, suite: str) -> list[Submission]:
    """All of a suite, oldest first."""
    found = [Submission(path.parent) for path in home(out, suite).glob(f"*/{PLAN}")]
    return sorted(found, key=lambda s: (s.plan.created, s.plan.token))


@contextmanager
def submitting(folder: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[IO[bytes]]:
    """Hold the right to submit a suite's jobs.

    The lock is the open file: whoever inherits it (sbatch does) holds it too, so that it is free only when no sbatch of a
    launcher, dead or alive, is still on its way.

    Raises:
        InputError: the folder cannot be written, or another launcher keeps the lock for too long.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / LOCK, "ab")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from None
    with lock:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if not isinstance(error, BlockingIOError):
                    raise InputError(
                        f"{folder} is on a file system without locks ({error.strerror}), where jobs could be submitted twice; "
                        f"expected --out on one that has them (Lustre: mounted with flock)"
                    ) from None
                if time.monotonic() > deadline:
                    raise InputError(
                        f"another launcher has been submitting jobs of this suite for {wait_s:.0f} s; try again"
                    ) from None
                time.sleep(0.1)
        yield lock


def fingerprint_of_place(out: Path) -> str:
    """A few letters that tell one results folder from another, in the names of jobs."""
    return hashlib.sha256(os.fsencode(out)).hexdigest()[:6]
