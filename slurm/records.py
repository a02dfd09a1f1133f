"""Records of submitted jobs: files in the shared folder, the only state.

::

    <out>/<suite>/.slurm/
        lock                 held by the launcher while it submits jobs
        <token>/             one submission: an array of jobs
            plan.json        the runs, one share for each job
            job              SLURM's id of the array, once sbatch has answered
            cancelled        exists if ``lprime cancel`` has cancelled the jobs
            starts-<n>.json  how often the job with share n has started
            <id>_<n>.log     its output
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from bench.files import try_lock, write_atomic
from bench.result import Record, reading
from bench.runs.run import Run, RunKey
from bench.runs.worker import RunRequest
from bench.sealed.request import SealedCode, SealedRequest
from bench.suites.suite import Suite
from tasks import InputError

from .cluster import Cluster

HOME, LOCK, PLAN, JOB, CANCELLED = ".slurm", "lock", "plan.json", "job", "cancelled"
LOCK_WAIT_S = 120.0


class Source(Record):
    """References from which a node loads an encoding, and the hash of its source at submission."""

    plugins: list[str]
    sha256: str
    sealed: SealedCode | None = None
    """Submitted code, which runs in a sandbox; then there are no ``plugins``."""


class Plan(Record):
    """One submission. Jobs read it on their nodes."""

    format: Literal[3] = 3
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
    shares: list[list[int]]
    """By job: indices into ``runs``."""
    keep_weights: list[str]
    """Encodings whose runs keep their weights. A job could not tell which trainings are shared: it loads no plugins."""

    @property
    def name(self) -> str:
        """Name of the jobs in SLURM."""
        return f"lprime-{self.suite.name}-{self.token}"

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


class Starts(Record):
    """Starts of a job: requeued jobs start again."""

    count: int = 0
    idle: int = 0
    """Number of consecutive starts without progress, including this one."""


class Submission:
    """The records of one submission, a folder below ``.slurm``."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.recorded_job = ""

    @cached_property
    def plan(self) -> Plan:
        with reading(self.folder / PLAN, "is damaged", f"cancel its jobs, if any, and delete {self.folder}"):
            return Plan.model_validate_json((self.folder / PLAN).read_bytes())

    @property
    def job(self) -> str:
        """SLURM's id of the array; empty until it is recorded. It never changes, so it is read once."""
        with suppress(OSError):
            self.recorded_job = self.recorded_job or (self.folder / JOB).read_text().strip()
        return self.recorded_job

    def write_job(self, id: str) -> None:
        write_atomic(self.folder / JOB, f"{id}\n")

    def job_of(self, share: int) -> str:
        """SLURM's id of one job: ``123_4``, or ``123`` if it is the only one."""
        return f"{self.job}_{share}" if len(self.plan.shares) > 1 else self.job

    def log(self, share: int) -> Path:
        """File of a job's output."""
        return self.folder / f"{self.job_of(share)}.log"

    def starts(self, share: int) -> Starts:
        try:
            return Starts.model_validate_json((self.folder / f"starts-{share}.json").read_bytes())
        except (OSError, ValidationError):
            return Starts()

    def write_starts(self, share: int, starts: Starts) -> None:
        write_atomic(self.folder / f"starts-{share}.json", starts.model_dump_json() + "\n")

    @property
    def cancelled(self) -> bool:
        return (self.folder / CANCELLED).exists()

    def mark_cancelled(self) -> None:
        """For sites whose accounting does not say so."""
        with suppress(OSError):  # the jobs are cancelled, even if the disk is full
            (self.folder / CANCELLED).touch()


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
def submitting(folder: Path) -> Iterator[None]:
    """Lock the submission of a suite's jobs.

    Raises:
        InputError: the folder cannot be written or has no locks, or another launcher holds the lock for too long.
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
                f"{folder} is on a file system without locks ({error.strerror}), where two jobs could work on one run; "
                f"expected --out on one that has them (Lustre: mounted with flock)"
            ) from None
        if not locked:
            raise InputError(f"another launcher has been submitting jobs of this suite for {LOCK_WAIT_S:.0f} s; try again")
        yield
