"""The state of every run: files in the shared folder merged with SLURM's answers, and ``lprime status`` of it."""

import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from bench.result import RUN_FOLDER
from bench.runs.progress import section, shortened
from bench.runs.run import FINISHED, Run, RunKey, State, plan_runs
from bench.runs.run_lock import Heartbeat, read_heartbeat
from bench.suites.suite import Suite
from tasks import plural

from . import commands
from .commands import UNSTARTED, JobInfo, JobKey
from .job import EXIT_REASONS
from .records import Plan, read_plans

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
NEED_ATTENTION: dict[str, tuple[State, ...]] = {
    "failed; lprime run … --retry-failed runs them again": ("failed",),
    "unreadable; their results are not used": ("unreadable",),
    "without a job; lprime run … --on … submits them again": ("missing", "paused"),
}
"""What to do about runs that have a reason → their states."""


@dataclass(frozen=True)
class Status:
    """State of one run."""

    state: State
    job: JobInfo | None = None
    """The job in which it runs or waits, or which ended without it."""
    heartbeat: Heartbeat | None = None
    """Its last reported step; None if it is not running, or has not reported any."""
    reason: str = ""
    """Why it waits, failed, or lost its job."""


@dataclass
class Queue:
    """A suite's submissions, and a snapshot of their jobs in SLURM."""

    suite: Suite
    plans: list[Plan]
    live: dict[JobKey, JobInfo]
    """Pending and running jobs of these submissions."""
    no_answer: str = ""
    """Why SLURM did not answer, if it did not."""
    asked: float = field(default_factory=time.monotonic)
    """When it was asked."""

    @classmethod
    def read(cls, out: Path, suite: Suite, need: bool = True) -> "Queue":
        """Read the plans and ask SLURM, if there are any.

        Arguments:
            need: raise if SLURM does not answer.

        Raises:
            InputError: SLURM does not answer.
        """
        found = cls(suite, read_plans(out, suite.name), {})
        try:
            found.live = commands.queued_jobs([plan.name for plan in found.plans]) if found.plans else {}
        except commands.NoAnswer as error:
            if need:
                raise
            found.no_answer = str(error)
        return found

    @cached_property
    def latest(self) -> dict[RunKey, JobKey]:
        """Run → the job of the last submission that contains it. Submissions of earlier versions of the suite do not count."""
        return {
            key: (plan.name, share)
            for plan in self.plans
            if plan.suite.fingerprint == self.suite.fingerprint
            for share, keys in enumerate(plan.shares)
            for key in keys
        }

    def job(self, run: Run) -> JobInfo | None:
        """The run's job, if it is in the queue."""
        return self.live.get(self.latest.get(run.key, ("", 0)))

    def taken(self, out: Path) -> set[RunKey]:
        """Runs that a job in the queue will finish."""
        return {
            key
            for key in self.latest
            if self.job(run := Run(self.suite, *key)) and run.standing(out).state not in ("failed", "unreadable")
        }

    def all_statuses(self, out: Path) -> dict[Run, Status]:
        """Statuses of the suite's runs, of submitted runs, and of runs of other encodings and seeds with files in ``out``."""
        asked = dict.fromkeys([*plan_runs(self.suite), *(Run(self.suite, *key) for key in self.latest)])
        found = {run: self.status(run, out) for run in dict.fromkeys([*asked, *runs_on_disk(self.suite, out)])}
        return {run: status for run, status in found.items() if run in asked or status.state != "missing"}

    @cached_property
    def accounted(self) -> dict[JobKey, JobInfo]:
        """All jobs, including those that have ended; none if the site has no accounting."""
        if self.no_answer or not self.plans:
            return {}
        since = datetime.strptime(self.plans[0].token[:8], "%Y%m%d") - timedelta(days=1)  # in SLURM's time zone, not UTC
        return commands.accounted_jobs([plan.name for plan in self.plans], f"{since:%Y-%m-%d}")

    def status(self, run: Run, out: Path) -> Status:
        state, reason, *_ = run.standing(out)
        info = self.job(run)
        if state in (*FINISHED, "failed", "unreadable"):
            return Status(state, reason=reason)
        if state == "running":  # or in another process
            return Status(state, info if info and info.state == "RUNNING" else None, read_heartbeat(run.folder(out)))
        if info:
            return Status("queued", info, reason="" if info.state in AT_WORK else info.reason)
        if job := self.latest.get(run.key):
            info = self.accounted.get(job) or self.accounted.get((job[0], UNSTARTED))
        return Status(state, info, reason=end_reason(info) if info else "")


def end_reason(job: JobInfo) -> str:
    """Why a job has left the queue; empty if it completed normally, or the accounting does not know yet."""
    if job.state in ("COMPLETED", *NOT_ENDED):
        return ""
    if job.exit_code in EXIT_REASONS:
        return f"job {job.id} on {job.node}: {EXIT_REASONS[job.exit_code]}"
    if job.state == "FAILED" and job.exit_code == 0:
        return f"job {job.id} on {job.node}: SLURM could not start it; does the node see the results folder?"
    return f"job {job.id} {END_REASONS.get(job.state, f'ended as {job.state}, exit code {job.exit_code}')}"


def runs_on_disk(suite: Suite, out: Path) -> Iterator[Run]:
    """Runs of this suite's tasks that have a folder; only the names of folders are read."""
    for spec in suite.tasks:
        for path in sorted((out / suite.name / spec.task).glob("[!.]*/seed-*")):
            if (match := RUN_FOLDER.fullmatch(path.name)) and path.is_dir():
                yield Run(suite, spec.task, path.parent.name, int(match[1]), float(match[2]) if match[2] else None)


def status_rows(statuses: dict[Run, Status]) -> list[dict[str, Any]]:
    """One JSON object per run, with the keys that have a value."""
    rows = []
    for run, status in statuses.items():
        row: dict[str, Any] = {"task": run.task, "encoding": run.encoding, "seed": run.seed, "learning_rate": run.learning_rate}
        row["state"] = status.state
        if beat := status.heartbeat:
            left = round((beat.steps - beat.step) / beat.rate) if beat.rate else None  # of training
            row |= {"step": beat.step, "steps": beat.steps, "steps_per_s": round(beat.rate, 2), "seconds_left": left}
            row["reported"] = datetime.fromtimestamp(beat.at, UTC).isoformat(timespec="seconds")
        if job := status.job:
            row |= {"job_time_left": job.time_left, "job": job.id, "node": job.node}
        row["reason"] = status.reason
        rows.append({key: value for key, value in row.items() if value not in (None, "")})
    return rows


def status_text(queue: Queue, statuses: dict[Run, Status], out: Path) -> str:
    """The output of ``lprime status``: encodings by tasks with the number of runs in each state, jobs in the queue, progress of
    active runs with the job that works on each, and runs that need attention."""
    from tabulate import tabulate

    cells: defaultdict[tuple[str, str], Counter[State]] = defaultdict(Counter)
    for run, status in statuses.items():
        for cell in ((run.encoding, run.task), ("all", "all")):
            cells[cell][status.state] += 1

    def counts(encoding: str, task: str) -> str:
        found = cells[encoding, task]
        return ", ".join(f"{found[state]} {state}" for state in STATES if found[state])

    tasks, encodings = [spec.task for spec in queue.suite.tasks], dict.fromkeys(run.encoding for run in statuses)
    table = [[encoding, *(counts(encoding, task) for task in tasks)] for encoding in encodings]
    hint = empty_folder_hint(queue.suite.name, out)
    lines = [tabulate(table, headers=["encoding", *tasks], tablefmt="simple"), ""]
    lines.append(f"{plural(len(statuses), 'run')}: {counts('all', 'all')}{f'; {hint}' if hint else ''}")
    if queue.no_answer:
        lines.append(f"SLURM was not asked about the jobs: {queue.no_answer}")
    elif queue.plans:
        pending = Counter(job.reason for job in queue.live.values() if job.state == "PENDING" and job.reason != "None")
        waits = ", ".join(f"{count} for {reason}" for reason, count in pending.most_common(3) if reason)
        lines.append(f"{plural(len(queue.live), 'job')} in the queue{f'; waiting: {waits}' if waits else ''}")
    if rows := status_rows({run: status for run, status in statuses.items() if status.state == "running"}):
        head, rule, *active = tabulate(rows, headers="keys", tablefmt="simple").splitlines()
        lines += ["", head, rule, *shortened(active)]
    for advice, states in NEED_ATTENTION.items():
        found = {run: status.reason for run, status in statuses.items() if status.state in states and status.reason}
        lines += ["", *section(advice, found)] if found else []
    return "\n".join(lines)


def empty_folder_hint(suite: str, out: Path) -> str:
    """A hint that the folder may be the wrong one, if it has no results of this suite at all."""
    if not os.path.isdir(out):
        return f"there is no folder {out}"
    return "" if os.path.isdir(f"{out}/{suite}") else f"nothing of suite {suite} is in {out}"
