"""The state of every run: files in the shared folder merged with SLURM's answers, and ``lprime status`` of it."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from bench.result import RUN_FOLDER
from bench.runs.progress import format_duration
from bench.runs.run import Run, RunKey, plan_runs
from bench.runs.run_lock import Heartbeat, read_heartbeat
from bench.suites.suite import Suite
from tasks import InputError, plural

from . import commands
from .commands import JobInfo
from .job import EXIT_REASONS
from .records import Submission, load_submissions

State = Literal["done", "diverged", "failed", "running", "queued", "paused", "missing", "unreadable"]
STATES: tuple[State, ...] = get_args(State)
MOST_ROWS = 20
"""Maximum number of rows shown of a list; the others are only counted."""
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


def status_rows(statuses: dict[Run, Status]) -> list[dict[str, Any]]:
    """One JSON object per run; keys about its job are present if they have a value."""
    rows = []
    for run, status in statuses.items():
        row: dict[str, Any] = {"task": run.task, "encoding": run.encoding, "seed": run.seed}
        row |= {} if run.learning_rate is None else {"learning_rate": run.learning_rate}
        row |= {"state": status.state}
        if beat := status.heartbeat:
            reported = datetime.fromtimestamp(beat.at, UTC).isoformat(timespec="seconds")
            left = None if beat.seconds_left is None else round(beat.seconds_left)
            row |= {"step": beat.step, "steps": beat.steps, "steps_per_s": round(beat.rate, 2)}
            row |= {"seconds_left": left, "reported": reported}
        row |= {"job_time_left": status.time_left} if status.state == "running" and status.job else {}
        row |= {key: value for key in ("job", "node", "reason") if (value := getattr(status, key))}
        rows.append(row)
    return rows


def status_text(queue: Queue, statuses: dict[Run, Status], out: Path) -> str:
    """The output of ``lprime status``."""
    counts = format_counts(Counter(status.state for status in statuses.values()))
    hint = empty_folder_hint(queue.suite.name, out)
    parts = [
        state_table(statuses),
        f"\n{plural(len(statuses), 'run')}: {counts}{f'; {hint}' if hint else ''}",
        *job_lines(queue),
        *running_lines(statuses),
        *reason_lines(statuses),
    ]
    return "\n".join(parts)


def state_table(statuses: dict[Run, Status]) -> str:
    """Encodings by tasks, with the number of runs in each state."""
    from tabulate import tabulate

    cells: dict[tuple[str, str], Counter[str]] = {}
    for run, status in statuses.items():
        cells.setdefault((run.encoding, run.task), Counter())[status.state] += 1
    asked = {task for _, task in cells}
    tasks = [spec.task for spec in next(iter(statuses)).suite.tasks if spec.task in asked]
    lines = dict.fromkeys(line for line, _ in cells)
    table = [[line, *(format_counts(cells.get((line, task), Counter())) for task in tasks)] for line in lines]
    return tabulate(table, headers=["encoding", *tasks], tablefmt="simple")


def format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def empty_folder_hint(suite: str, out: Path) -> str:
    """A hint that the folder may be the wrong one, if it has no results of this suite at all."""
    if not os.path.isdir(out):
        return f"there is no folder {out}"
    return "" if os.path.isdir(f"{out}/{suite}") else f"nothing of suite {suite} is in {out}"


def job_lines(queue: Queue) -> list[str]:
    """Jobs in the queue."""
    if queue.no_answer:
        return [f"SLURM was not asked about the jobs: {queue.no_answer}"]
    if not queue.submissions:
        return []
    reasons = Counter(job.reason for job in queue.live.values() if job.state == "PENDING" and job.reason not in ("None", ""))
    waits = ", ".join(f"{count} for {reason}" for reason, count in reasons.most_common(3))
    return [f"{plural(len(queue.live), 'job')} in the queue{f'; waiting: {waits}' if waits else ''}"]


def running_lines(statuses: dict[Run, Status]) -> list[str]:
    """Progress of the active runs, and the job that works on each, if any."""
    from tabulate import tabulate

    running = [(run, status) for run, status in statuses.items() if status.state == "running"]
    if not running:
        return []
    header = ["running", "step", "share", "steps/s", "time left", "node", "job", "job's time left"]
    table = [[run, *progress_cells(s.heartbeat), s.node, s.job, s.time_left] for run, s in running[:MOST_ROWS]]
    return ["", tabulate(table, headers=header, tablefmt="simple", disable_numparse=True), *more(running)]


def more(rows: Sequence[object]) -> list[str]:
    """A line that counts the rows that are not shown, if any."""
    return [f"… and {len(rows) - MOST_ROWS} more"] if len(rows) > MOST_ROWS else []


def progress_cells(beat: Heartbeat | None) -> list[str]:
    """Step, share, steps per second and time left of a run."""
    if beat is None:
        return ["starting", "", "", ""]
    left = "evaluation" if beat.step == beat.steps else ""
    if not left and beat.seconds_left is not None:
        left = format_duration(beat.seconds_left)
    return [f"{beat.step}/{beat.steps}", f"{beat.share:.0%}", f"{beat.rate:.1f}" if beat.rate else "", left]


def reason_lines(statuses: dict[Run, Status]) -> list[str]:
    """Runs that failed or whose results cannot be used, with reasons, and why other runs lost their jobs."""
    lines: list[str] = []
    for state, advice in (
        ("failed", "lprime run … --retry-failed runs them again"),
        ("unreadable", "their results are not used"),
    ):
        found = [f"  {run}: {status.reason}" for run, status in statuses.items() if status.state == state]
        if found:
            lines += ["", f"{len(found)} {state}; {advice}:", *found[:MOST_ROWS], *more(found)]
    lost = Counter(status.reason for status in statuses.values() if status.state in ("missing", "paused") and status.reason)
    if lost:
        lines += ["", "runs without a job, which lprime run … --on … submits again:"]
        lines += [f"  {count}: {reason}" for reason, count in lost.most_common(MOST_ROWS)]
    return lines
