"""The state of every run: files in the shared folder merged with SLURM's answers."""

import os
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
NOT_RESENT = ("CANCELLED", "OUT_OF_MEMORY")
"""States of jobs whose runs are not submitted again automatically."""
END_REASONS = {
    "CANCELLED": "was cancelled",
    "OUT_OF_MEMORY": "ran out of memory: raise memory_gb",
    "TIMEOUT": "hit its time limit before it could save and requeue itself: raise save_before_s",
    "NODE_FAIL": "lost its node, and the site did not requeue it",
    "BOOT_FAIL": "got a node that did not start",
    "DEADLINE": "missed a deadline of the site",
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
    live: dict[str, tuple[str, JobInfo]]
    """Pending and running jobs of these submissions: id → name, job."""
    jobs_of_user: int = 0
    """Number of jobs of this user in the queue."""
    no_answer: str = ""
    """Why SLURM did not answer, if it did not."""
    latest: dict[RunKey, tuple[Submission, int]] = field(init=False)
    """Run → the last submission that contains it, and the index of its share. Submissions of earlier versions of the suite do
    not count."""

    def __post_init__(self) -> None:
        self.latest = {}
        for submission in filter(self.is_current, self.submissions):
            for share, places in enumerate(submission.plan.shares):
                for place in places:
                    self.latest[submission.plan.runs[place]] = (submission, share)

    @classmethod
    def read(cls, out: Path, suite: Suite, need: bool = True) -> "Queue":
        """Read the records and ask SLURM.

        Arguments:
            need: raise if SLURM does not answer. Otherwise it is not asked about a suite without submissions.

        Raises:
            InputError: SLURM does not answer, or a record is damaged.
        """
        submissions = load_submissions(out, suite.name)
        if not (need or submissions):
            return cls(suite, [], {})
        try:
            me = commands.current_user()
            jobs = commands.queued_jobs([me, *(s.plan.user for s in submissions)])
        except InputError as error:
            if need:
                raise
            return cls(suite, submissions, {}, no_answer=str(error))
        names = {s.plan.name for s in submissions}
        live = {id: (name, info) for id, (name, info) in jobs.items() if name in names}
        return cls(suite, submissions, live, sum(info.user == me for _, info in jobs.values()))

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
        taken = set()
        for submission in self.submissions:
            for share, places in enumerate(submission.plan.shares):
                if submission.job and submission.job_of(share) in self.live:
                    runs = map(submission.plan.run, places)
                    taken |= {run.key for run in runs if not run.failure(out)}
        return taken

    @cached_property
    def accounted(self) -> dict[str, JobInfo] | None:
        """All jobs, including those that have ended; None if the site keeps no accounts."""
        return {} if self.no_answer else commands.accounted_jobs([s.job for s in self.submissions if s.job])

    def account_of(self, id: str) -> JobInfo | None:
        """What is known of a job that has left the queue: from the accounting, or because ``lprime cancel`` cancelled it."""
        jobs, array = self.accounted or {}, id.split("_")[0]
        info = jobs.get(id) or jobs.get(array)
        unknown = info is None or info.state in NOT_ENDED
        cancelled = unknown and any(s.job == array and s.cancelled for s in self.submissions)
        return JobInfo(id, "CANCELLED") if cancelled else info

    def end_reason(self, id: str) -> str:
        """Why a job has left the queue; empty if it completed normally."""
        info = self.account_of(id)
        if info is None or info.state in ("COMPLETED", *NOT_ENDED):
            return ""
        if info.exit_code in EXIT_REASONS:
            return f"job {id} on {info.node}: {EXIT_REASONS[info.exit_code]}"
        if info.state == "FAILED" and info.exit_code == 0:
            return f"job {id} on {info.node}: SLURM could not start it; does the node see the results folder?"
        return f"job {id} {END_REASONS.get(info.state, f'ended with {info.reason}, exit code {info.exit_code}')}"

    def worth_resending(self, id: str) -> bool:
        """Whether a job ended for a reason other than its runs or its cluster file."""
        info = self.account_of(id)
        return info is None or not (info.state in NOT_RESENT or info.exit_code in EXIT_REASONS)

    def status(self, run: Run, out: Path) -> Status:
        try:
            if result := run.result(out):
                return Status(result.status)
            state, failure = run.state(out), run.failure(out)
        except InputError as error:
            return Status("unreadable", reason=str(error))
        submission, share = self.latest.get(run.key, (None, 0))
        # Without an id, it is being submitted, or its launcher was killed.
        job = submission.job_of(share) if submission and submission.job else ""
        info = self.live[job][1] if job in self.live else None
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
        waits = Counter(info.reason for _, info in self.live.values() if info.state == "PENDING")
        return Counter({reason: count for reason, count in waits.items() if reason not in ("None", "")})

    def statuses(self, runs: Iterable[Run], out: Path) -> dict[Run, Status]:
        return {run: self.status(run, out) for run in runs}

    def hours_used(self) -> tuple[float, float] | None:
        """GPU-hours and CPU-hours of all jobs so far; None without accounting."""
        if self.accounted is None:
            return None
        jobs = self.accounted.values()
        return sum(j.gpus * j.seconds for j in jobs) / 3600, sum(j.cpus * j.seconds for j in jobs) / 3600


def runs_on_disk(suite: Suite, out: Path) -> Iterator[RunKey]:
    """Runs of this suite's tasks that have a folder; only the names of folders are read."""
    for spec in suite.tasks:
        for encoding in subfolders(task_folder := f"{out}/{suite.name}/{spec.task}"):
            found = map(RUN_FOLDER.fullmatch, subfolders(f"{task_folder}/{encoding}"))
            places = sorted((int(match[1]), float(match[2] or 0)) for match in found if match)
            yield from ((spec.task, encoding, seed, rate or None) for seed, rate in places)


def subfolders(folder: str) -> list[str]:
    """Sorted names of the folders in a folder; empty if it does not exist.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with os.scandir(folder) as entries:  # needs no further system call to recognise folders
            return sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"cannot read {folder}: {error.strerror or error}") from None
