"""``lprime status`` and ``lprime logs``: the state of every run as text and as JSON."""

import os
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.runs.progress import format_duration
from bench.runs.run import FAILURE, Run
from bench.runs.run_lock import Heartbeat
from tasks import plural

from .status import STATES, Queue, Status

MOST_ROWS = 20
"""Maximum number of rows shown of a list; the others are only counted."""
SILENT_S = 120.0
"""Seconds without a report from a running run after which this is shown."""


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


def status_text(queue: Queue, statuses: dict[Run, Status], out: Path, whole: bool = True):
    """The output of ``lprime status``.

    Arguments:
        whole: whether these are all runs of the suite; the lines on jobs are left out otherwise.
    """
    from rich.text import Text

    counts = format_counts(Counter(status.state for status in statuses.values()))
    hint = empty_folder_hint(queue.suite.name, out)
    parts = [
        state_table(statuses),
        f"\n{plural(len(statuses), 'run')}: {counts}{f'; {hint}' if hint else ''}",
        *(job_lines(queue) if whole else ()),
        *running_lines(statuses),
        *reason_lines(statuses),
    ]
    return Text("\n".join(parts))


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
    waits = ", ".join(f"{count} for {reason}" for reason, count in queue.wait_reasons().most_common(3))
    return [f"{plural(len(queue.live), 'job')} in the queue{f'; waiting: {waits}' if waits else ''}"]


def running_lines(statuses: dict[Run, Status]) -> list[str]:
    """Progress of the active runs, and the job that works on each, if any."""
    from tabulate import tabulate

    running = [(run, status) for run, status in statuses.items() if status.state == "running"]
    if not running:
        return []
    header = ["running", "step", "share", "steps/s", "time left", "node", "job", "job's time left"]
    table = [[run, *progress_cells(s.heartbeat), s.node, s.job, s.time_left] for run, s in running[:MOST_ROWS]]
    if not any(status.job for _, status in running):
        header, table = header[:5], [row[:5] for row in table]
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
    if (silent := time.time() - beat.at) > SILENT_S:
        left = f"silent for {format_duration(silent)}"
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


def read_logs(runs: Iterable[Run], queue: Queue, out: Path, lines: int) -> dict[Path, list[str]]:
    """The last lines of the logs of these runs' last jobs, and the tracebacks of failed runs, by file."""
    logs: dict[Path, list[str]] = {}
    for run in runs:
        if last := queue.latest.get(run.key):
            path = last[0].log(last[1])
            if path not in logs and (log := last_lines(path, lines)):
                logs[path] = log
        if failure := run.failure(out):
            logs[run.folder(out) / FAILURE] = [*failure.traceback.splitlines()[-lines:], failure.error]
    return logs


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log, which may be long; empty if it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, count)]
    except OSError:
        return []
