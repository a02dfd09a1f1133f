"""Records of submitted jobs: files in the shared folder, the only state.

::

    <out>/<suite>/.slurm/
        lock                     held while jobs are submitted, by the launcher and by sbatch
        <token>/                 one submission: an array of jobs
            plan.json            the runs, one share for each job
            job.json             SLURM's id of the array, once sbatch has answered
            cancelled            exists if ``lprime cancel`` has cancelled the jobs
            progress/<n>.json    progress of the job with share n, written by it
            <id>_<n>_0_log.out   its output, next to submitit's files
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Literal, TypeVar

from bench.files import try_lock, write_atomic
from bench.result import Record, reading
from bench.runs.run import Run, RunKey
from bench.runs.worker import RunRequest
from bench.sealed.request import SealedCode, SealedRequest
from bench.suites.suite import Suite
from tasks import InputError

from .cluster import Cluster

HOME, LOCK, PLAN, JOB, CANCELLED, PROGRESS = ".slurm", "lock", "plan.json", "job.json", "cancelled", "progress"
LOCK_WAIT_S = 120.0

R = TypeVar("R", bound=Record)


class Source(Record):
    """References from which a node loads an encoding, and the hash of its source at submission."""

    plugins: list[str]
    sha256: str
    sealed: SealedCode | None = None
    """Submitted code, which runs in a sandbox; then there are no ``plugins``."""


class Plan(Record):
    """One submission. Jobs read it on their nodes; their pickles hold only its path."""

    format: Literal[2] = 2
    token: str
    """Unique; the end of the jobs' name."""
    created: str
    user: str
    """Owner of the jobs: several users may share a folder."""
    out: str
    suite: Suite
    cluster: Cluster
    sources: dict[str, Source]
    """By encoding."""
    runs: list[RunKey]
    """Task, encoding, seed and learning rate."""
    failed_before: list[str]
    """By run: time of its failure before this submission, which retries it; empty if it had not failed."""
    shares: list[list[int]]
    """By job: indices into ``runs``."""
    keep_weights: list[str]
    """Encodings whose runs keep their weights. A job could not tell which trainings are shared: it loads no plugins."""

    @property
    def name(self) -> str:
        """Name of the jobs in SLURM."""
        return f"{job_name_prefix(self.suite.name)}{self.token}"

    def job_id(self, array: str, share: int) -> str:
        """SLURM's id of one job: ``123_4``, or ``123`` if it is the only one."""
        return f"{array}_{share}" if len(self.shares) > 1 else array

    def run(self, place: int) -> Run:
        return Run(self.suite, *self.runs[place])

    @property
    def all_runs(self) -> list[Run]:
        return [self.run(place) for place in range(len(self.runs))]

    def request(self, run: Run) -> RunRequest:
        """The request for a worker, with the source hash of the encoding at submission."""
        source = self.sources[run.encoding]
        if source.sealed:
            return SealedRequest.of_run(run, source.sealed)
        return RunRequest(self.suite_json, *run.key, tuple(source.plugins), source.sha256)

    @cached_property
    def suite_json(self) -> str:
        return self.suite.model_dump_json()

    def failed(self, place: int) -> bool:
        """Whether a run failed in this submission; failures before it do not count."""
        failure = self.run(place).failure(Path(self.out))
        return failure is not None and failure.finished != self.failed_before[place]


class Job(Record):
    """The array's id in SLURM."""

    id: str


class Beat(Record):
    """Progress of one active run, as reported by its job."""

    run: RunKey
    step: int
    rate: float
    """Training steps per second."""


class Progress(Record):
    """Progress of a job."""

    node: str
    starts: int
    """Number of starts: requeued jobs start again."""
    idle_starts: int
    """Number of consecutive starts without progress, including this one."""
    at: float
    """Time of writing, Unix time."""
    beats: list[Beat]


class Submission:
    """The records of one submission, a folder below ``.slurm``."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.recorded_job: str | None = None

    @cached_property
    def plan(self) -> Plan:
        return read_record(self.folder / PLAN, Plan)

    @property
    def job(self) -> str | None:
        """SLURM's id of the array; None until it is recorded. It never changes, so it is read once."""
        path = self.folder / JOB
        if self.recorded_job is None and path.exists():
            self.recorded_job = read_record(path, Job).id
        return self.recorded_job

    def job_of(self, share: int) -> str:
        """SLURM's id of one job, see ``Plan.job_id``."""
        return self.plan.job_id(str(self.job), share)

    def logs(self, share: int) -> list[Path]:
        """Files of a job's output: stdout, then stderr."""
        return [self.folder / f"{self.job_of(share)}_0_log.{kind}" for kind in ("out", "err")]

    def progress(self, share: int) -> Progress | None:
        try:
            return read_record(self.folder / PROGRESS / f"{share}.json", Progress)
        except InputError:
            return None  # not started, or its folder was deleted

    @property
    def cancelled(self) -> bool:
        return (self.folder / CANCELLED).exists()

    def mark_cancelled(self) -> None:
        """For sites whose accounting does not say so."""
        with suppress(OSError):  # the jobs are cancelled, even if the disk is full
            (self.folder / CANCELLED).touch()

    def write_job(self, id: str) -> None:
        write_atomic(self.folder / JOB, Job(id=id).model_dump_json() + "\n")

    def write_progress(self, share: int, progress: Progress) -> None:
        write_atomic(self.folder / PROGRESS / f"{share}.json", progress.model_dump_json() + "\n")


def read_record(path: Path, kind: type[R]) -> R:
    """Read a record's file.

    Raises:
        InputError: it cannot be read or is damaged.
    """
    with reading(path, "is damaged", f"cancel its jobs, if any, and delete {path.parent}"):
        return kind.model_validate_json(path.read_bytes())


def job_name_prefix(suite: str) -> str:
    return f"lprime-{suite}-"


def records_folder(out: Path, suite: str) -> Path:
    return out / suite / HOME


def load_submissions(out: Path, suite: str) -> list[Submission]:
    """All submissions of a suite, oldest first."""
    submissions = []
    for path in records_folder(out, suite).glob(f"*/{PLAN}"):
        submission = Submission(path.parent)
        try:
            submissions.append((submission.plan.created, submission.plan.token, submission))
        except InputError:
            if path.exists():  # otherwise a launcher has just deleted it, because its jobs were refused
                raise
    return [submission for *_, submission in sorted(submissions)]


@contextmanager
def submitting(folder: Path) -> Iterator[IO[bytes]]:
    """Lock the submission of a suite's jobs; yields the locked file.

    sbatch inherits the file and with it the lock, so the lock is held while an sbatch process is running, even if its
    launcher has died.

    Raises:
        InputError: the folder cannot be written, or another launcher holds the lock for too long.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / LOCK, "ab")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from None
    with lock:
        try:
            locked = try_lock(lock, LOCK_WAIT_S)
        except OSError as error:
            raise InputError(
                f"{folder} is on a file system without locks ({error.strerror}), where jobs could be submitted twice; "
                f"expected --out on one that has them (Lustre: mounted with flock)"
            ) from None
        if not locked:
            raise InputError(f"another launcher has been submitting jobs of this suite for {LOCK_WAIT_S:.0f} s; try again")
        yield lock


def folder_hash(out: Path) -> str:
    """Six hexadecimal digits that identify a results folder in the names of jobs."""
    return hashlib.sha256(os.fsencode(out)).hexdigest()[:6]
