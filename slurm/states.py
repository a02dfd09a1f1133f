"""Where every run is: the files in the shared folder, and SLURM's word on the jobs, merged."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from bench.runs import Run, plan
from bench.suite import Suite
from tasks import InputError

from . import site
from .job import EXITS
from .records import Submission, fingerprint_of_place, prefix, submissions
from .site import JobInfo

Key = tuple[str, str, int]
"""Task, encoding, seed."""
State = Literal["done", "diverged", "failed", "running", "queued", "paused", "missing"]
STATES = ("done", "diverged", "failed", "running", "queued", "paused", "missing")
ALIVE = ("COMPLETED", "RUNNING", "PENDING", "REQUEUED", "COMPLETING", "SUSPENDED")
"""What the accounting, which lags, says of jobs that did their work or still do it."""
FINAL = ("CANCELLED", "OUT_OF_MEMORY")
"""Ends after which a job is not simply sent again."""
ENDED = {
    "CANCELLED": "was cancelled",
    "OUT_OF_MEMORY": "ran out of memory: raise memory_gb",
    "TIMEOUT": "hit its time limit before it could save: raise save_before_s",
    "NODE_FAIL": "lost its node, and the site did not requeue it",
    "BOOT_FAIL": "got a node that did not start",
    "DEADLINE": "missed a deadline of the site",
    "PREEMPTED": "was preempted, and the site did not requeue it",
}
"""How a job ended before its runs did."""
# As ``Run.folder`` names it.
SEED = re.compile(r"seed-(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class Status:
    """One run."""

    state: State
    job: str = ""
    node: str = ""
    left: str = ""
    """Of the job's time limit."""
    step: int = 0
    rate: float = 0.0
    """Training steps a second."""
    reason: str = ""
    """Why it waits, failed, or lost its job."""


@dataclass
class Queue:
    """A suite's submissions, and what SLURM says of them at this moment."""

    suite: str
    submissions: list[Submission]
    live: dict[str, tuple[str, JobInfo]]
    """Jobs of this suite and folder that wait or run: id → name, job."""
    all_mine: int = 0
    """Jobs of this user in the queue, of whatever kind."""
    silence: str = ""
    """Why SLURM was not heard, where it is not needed."""
    latest: dict[Key, tuple[Submission, int, int]] = field(init=False)
    """Run → the last submission that has it, share, place."""

    def __post_init__(self) -> None:
        self.latest = {}
        for submission in self.submissions:
            for share, places in enumerate(submission.plan.shares):
                for place in places:
                    self.latest[submission.plan.runs[place]] = (submission, share, place)

    @classmethod
    def read(cls, out: Path, suite: str, need: bool = True) -> "Queue":
        """Ask the folder and SLURM.

        Arguments:
            need: whether to fail where SLURM does not answer.

        Raises:
            InputError: it does not, or a record is damaged.
        """
        found = submissions(out, suite)
        me = site.user()
        try:
            jobs = site.queued([me, *(s.plan.user for s in found)])
        except InputError as error:
            if need:
                raise
            return cls(suite, found, {}, silence=str(error))
        names, place = {s.plan.name for s in found}, f"{prefix(suite)}{fingerprint_of_place(out)}"
        live = {id: (name, info) for id, (name, info) in jobs.items() if name in names or name.startswith(place)}
        return cls(suite, found, live, sum(info.user == me for _, info in jobs.values()))

    def runs(self, suite: Suite) -> list[Run]:
        """All that were ever submitted."""
        return [Run(suite, *key) for key in self.latest]

    def all_statuses(self, suite: Suite, out: Path) -> dict[Run, Status]:
        """Of the suite's own runs, of all that were ever submitted, and of others begun here: of other encodings and seeds."""
        statuses = self.statuses(dict.fromkeys([*plan(suite), *self.runs(suite)]), out)
        known = {run.key for run in statuses}
        others = [Run(suite, *key) for key in on_disk(suite, out) if key not in known]
        return statuses | {run: s for run, s in self.statuses(others, out).items() if s.state != "missing"}

    def taken(self) -> set[Key]:
        """Runs that a job in the queue will take to their end."""
        found = set()
        for submission in self.submissions:
            for share, places in enumerate(submission.plan.shares):
                if submission.job and submission.job_of(share) in self.live:
                    found |= {submission.plan.runs[place] for place in places if not submission.plan.failed(place)}
        return found

    @cached_property
    def accounted(self) -> dict[str, JobInfo] | None:
        """All jobs, also those that are over; None where the site keeps no accounts."""
        return {} if self.silence else site.accounted([s.job for s in self.submissions if s.job])

    def ended(self, id: str) -> str:
        """Why a job that is no longer in the queue is over; empty where it simply did its work."""
        info = (self.accounted or {}).get(id)
        if info is None or info.state in ALIVE:
            return ""
        if info.exit_code in EXITS:
            return f"job {id} on {info.node}: {EXITS[info.exit_code]}"
        if info.state == "FAILED" and info.exit_code == 0:
            return f"job {id} on {info.node}: SLURM could not start it; does the node see the results folder?"
        return f"job {id} {ENDED.get(info.state, f'ended with {info.reason}, exit code {info.exit_code}')}"

    def worth_another(self, id: str) -> bool:
        """Did a job end by no fault of its runs or of its cluster file?"""
        info = (self.accounted or {}).get(id)
        return info is None or not (info.state in FINAL or info.exit_code in EXITS)

    def status(self, run: Run, out: Path) -> Status:
        """One run's."""
        found = self.latest.get(run.key)
        if found is None:
            state = run.state(out)
            failure = run.failure(out) if state == "failed" else None
            return Status(state, reason=failure.error if failure else "")
        if result := run.result(out):
            return Status(result.status)
        submission, share, place = found
        id = submission.job_of(share)
        failure = run.failure(out)
        if failure and submission.plan.failed(place):
            return Status("failed", job=id, reason=failure.error)
        if id not in self.live:
            if failure:
                return Status("failed", job=id, reason=failure.error)
            state = run.state(out)
            if state == "running":
                return Status(state)  # of another process
            return Status(state, job=id, reason=self.ended(id))
        info = self.live[id][1]
        progress = submission.progress(share)
        beat = next((b for b in progress.beats if b.run == run.key), None) if progress else None
        if info.state == "RUNNING" and beat and progress:
            return Status("running", id, progress.node, info.left, beat.step, beat.rate)
        reason = "" if info.state in ("RUNNING", "COMPLETING") else info.reason
        return Status("queued", id, info.node, info.left, beat.step if beat else 0, reason=reason)

    def statuses(self, runs: Iterable[Run], out: Path) -> dict[Run, Status]:
        return {run: self.status(run, out) for run in runs}

    def hours(self) -> tuple[float, float] | None:
        """GPU-hours and CPU-hours that all jobs have used so far; None without accounting."""
        if self.accounted is None:
            return None
        jobs = self.accounted.values()
        return sum(j.gpus * j.seconds for j in jobs) / 3600, sum(j.cpus * j.seconds for j in jobs) / 3600


def on_disk(suite: Suite, out: Path) -> Iterator[Key]:
    """Whatever has the folder of a run of this suite's tasks, by its name; no such folder is looked into."""
    for spec in suite.tasks:
        for encoding in folders(place := f"{out}/{suite.name}/{spec.task}"):
            seeds = map(SEED.fullmatch, folders(f"{place}/{encoding}"))
            yield from ((spec.task, encoding, seed) for seed in sorted(int(found[1]) for found in seeds if found))


def folders(place: str) -> list[str]:
    """Names of the folders in one, in their order; none where there is no such place.

    Raises:
        InputError: it may not be read.
    """
    try:
        with os.scandir(place) as entries:  # which knows what is a folder without asking for each
            return sorted(entry.name for entry in entries if entry.name[0] != "." and entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"cannot read {place}: {error.strerror or error}") from None


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a log that may be long."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 200 * lines))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return []


def unfinished(statuses: dict[Run, Status]) -> Sequence[Run]:
    return [run for run, status in statuses.items() if status.state not in ("done", "diverged", "failed")]
