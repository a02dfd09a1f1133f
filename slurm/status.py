"""The state of every run: files in the shared folder merged with SLURM's answers."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from bench.result import RUN_FOLDER
from bench.runs.run import Run, RunKey, plan_runs
from bench.runs.run_lock import Heartbeat, read_heartbeat
from bench.suites.suite import Suite
from tasks import InputError

from . import commands
from .commands import JobInfo
from .job import EXIT_REASONS
from .records import Submission, load_submissions

State = Literal["done", "diverged", "failed", "running", "queued", "paused", "missing", "unreadable"]
STATES: tuple[State, ...] = get_args(State)
NOT_ENDED = ("RUNNING", "PENDING", "REQUEUED", "COMPLETING", "SUSPENDED")
"""Accounting states of jobs in the queue, and for a while of jobs that have left it: the accounting lags behind."""
AT_WORK = ("RUNNING", "COMPLETING")
"""States of jobs on a node."""
END_REASONS = {
    "CANCELLED": "was cancelled",
    "OUT_OF_MEMORY": "ran out of memory: raise memory_gb",
    "TIMEOUT": "hit its time limit before it could save and requeue itself: raise save_before_s",
    "NODE_FAIL": "lost its node, and the site did not requeue it",
    "PREEMPTED": "was preempted, and the site did not requeue it",
}
"""Why a job ended before its runs, by its state."""


@dataclass(frozen=True)
class Status:
    """State of one run."""

    state: State
    job: str = ""
    node: str = ""
    time_left: str = ""
    """Remaining part of the job's time limit."""
    heartbeat: Heartbeat | None = None
    """Its last reported step; None if it has not reported any."""
    reason: str = ""
    """Why it waits, failed, or lost its job."""

    @property
    def step(self) -> int:
        return self.heartbeat.step if self.heartbeat else 0


@dataclass
class Queue:
    """A suite's submissions, and a snapshot of their jobs in SLURM."""

    suite: Suite
    submissions: list[Submission]
    live: dict[str, JobInfo]
    """Pending and running jobs of these submissions, by id."""
    no_answer: str = ""
    """Why SLURM did not answer, if it did not."""
    latest: dict[RunKey, tuple[Submission, int]] = field(init=False)
    """Run → the last submission that contains it, and the index of its share. Submissions of earlier versions of the suite do
    not count."""

    def __post_init__(self) -> None:
        self.latest = {
            key: (submission, share)
            for submission in filter(self.is_current, self.submissions)
            for share, keys in enumerate(submission.plan.shares)
            for key in keys
        }
        ids = {info.name: id.split("_")[0] for id, info in self.live.items()}
        for submission in self.submissions:  # a killed launcher has not recorded it
            submission.job = submission.job or ids.get(submission.plan.name, "")

    @classmethod
    def read(cls, out: Path, suite: Suite, need: bool = True) -> "Queue":
        """Read the records and ask SLURM, if there are any.

        Arguments:
            need: raise if SLURM does not answer.

        Raises:
            InputError: SLURM does not answer, or a record is damaged.
        """
        submissions = load_submissions(out, suite.name)
        try:
            return cls(suite, submissions, commands.queued_jobs([s.plan.name for s in submissions]))
        except commands.NoAnswer as error:
            if need:
                raise
            return cls(suite, submissions, {}, no_answer=str(error))

    def is_current(self, submission: Submission) -> bool:
        """Whether a submission is of this version of the suite."""
        return submission.plan.suite.fingerprint == self.suite.fingerprint

    def all_statuses(self, out: Path) -> dict[Run, Status]:
        """Statuses of the suite's runs, of submitted runs, and of runs of other encodings and seeds with files in ``out``."""
        submitted = [Run(self.suite, *key) for key in self.latest]
        statuses = self.statuses(dict.fromkeys([*plan_runs(self.suite), *submitted]), out)
        known = {run.key for run in statuses}
        others = [Run(self.suite, *key) for key in runs_on_disk(self.suite, out) if key not in known]
        return statuses | {run: s for run, s in self.statuses(others, out).items() if s.state != "missing"}

    def taken(self, out: Path) -> set[RunKey]:
        """Runs that a job in the queue will finish."""
        shares = [(s, share) for s in self.submissions for share in range(len(s.plan.shares)) if s.job_of(share) in self.live]
        return {run.key for submission, share in shares for run in submission.plan.runs(share) if not run.failure(out)}

    @cached_property
    def accounted(self) -> dict[str, JobInfo]:
        """All jobs, including those that have ended; none if the site has no accounting."""
        return {} if self.no_answer else commands.accounted_jobs([s.job for s in self.submissions if s.job])

    def end_reason(self, id: str) -> str:
        """Why a job has left the queue; empty if it completed normally, or that is not known."""
        info = self.accounted.get(id) or self.accounted.get(id.split("_")[0])
        if info is None or info.state in ("COMPLETED", *NOT_ENDED):
            return ""
        if info.exit_code in EXIT_REASONS:
            return f"job {id} on {info.node}: {EXIT_REASONS[info.exit_code]}"
        if info.state == "FAILED" and info.exit_code == 0:
            return f"job {id} on {info.node}: SLURM could not start it; does the node see the results folder?"
        return f"job {id} {END_REASONS.get(info.state, f'ended as {info.state}, exit code {info.exit_code}')}"

    def status(self, run: Run, out: Path) -> Status:
        try:
            if result := run.result(out):
                return Status(result.status)
            state, failure = run.state(out), run.failure(out)
        except InputError as error:
            return Status("unreadable", reason=str(error))
        submission, share = self.latest.get(run.key, (None, 0))
        job = submission.job_of(share) if submission else ""
        info = self.live.get(job)
        if state == "failed" and failure:
            return Status("failed", job, reason=failure.error)
        if state == "running":
            heartbeat = read_heartbeat(run.folder(out))
            if info is None or info.state != "RUNNING":
                return Status("running", heartbeat=heartbeat)  # in another process
            return Status("running", job, info.node, info.time_left, heartbeat)
        if info is None:
            return Status(state, job, reason=self.end_reason(job) if job else "")
        return Status("queued", job, info.node, info.time_left, reason="" if info.state in AT_WORK else info.reason)

    def wait_reasons(self) -> Counter[str]:
        """Why jobs wait, with the number of jobs."""
        waits = Counter(info.reason for info in self.live.values() if info.state == "PENDING")
        return Counter({reason: count for reason, count in waits.items() if reason not in ("None", "")})

    def statuses(self, runs: Iterable[Run], out: Path) -> dict[Run, Status]:
        return {run: self.status(run, out) for run in runs}


def runs_on_disk(suite: Suite, out: Path) -> Iterator[RunKey]:
    """Runs of this suite's tasks that have a folder; only the names of folders are read."""
    for spec in suite.tasks:
        for encoding in subfolders(task_folder := out / suite.name / spec.task):
            found = map(RUN_FOLDER.fullmatch, subfolders(task_folder / encoding))
            places = sorted((int(match[1]), float(match[2] or 0)) for match in found if match)
            yield from ((spec.task, encoding, seed, rate or None) for seed, rate in places)


def subfolders(folder: Path) -> list[str]:
    """Sorted names of the folders in a folder; empty if it does not exist."""
    return sorted(path.name for path in folder.glob("*") if path.name[0] != "." and path.is_dir())
