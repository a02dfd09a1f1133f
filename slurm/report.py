"""``lprime status`` and ``lprime logs``: where every run is, for people and for programs."""

import os
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.progress import clock
from bench.runs import FAILURE, Run

from .estimate import Estimate
from .states import STATES, Queue, Status, tail, unfinished

SHOWN = 20
"""Rows of a list that are shown; the rest is counted."""
LOG_LINES = 3


def rows(statuses: dict[Run, Status]) -> list[dict[str, Any]]:
    """One object a run; what a cluster adds is there where it says something."""
    found = []
    for run, status in statuses.items():
        row: dict[str, Any] = {"task": run.task, "encoding": run.encoding, "seed": run.seed, "state": status.state}
        if status.state == "running" and status.job:
            row |= {"step": status.step, "steps": run.steps, "steps_per_s": round(status.rate, 2), "time_left": status.left}
        row |= {key: value for key in ("job", "node", "reason") if (value := getattr(status, key))}
        found.append(row)
    return found


def over(statuses: dict[Run, Status]) -> bool:
    return not unfinished(statuses)


def show(queue: Queue, statuses: dict[Run, Status], out: Path):
    """Everything, as text."""
    from rich.text import Text

    parts = [
        grid(statuses),
        totals(queue, statuses, out),
        *cluster(queue, statuses, out),
        *running(statuses),
        *failed(queue, statuses, out),
    ]
    return Text("\n".join(parts))


def grid(statuses: dict[Run, Status]) -> str:
    """Encodings by tasks, with the number of runs in each state."""
    from tabulate import tabulate

    cells: dict[tuple[str, str], Counter[str]] = {}
    for run, status in statuses.items():
        cells.setdefault((run.encoding, run.task), Counter())[status.state] += 1
    tasks = [spec.task for spec in next(iter(statuses)).suite.tasks]
    encodings = dict.fromkeys(run.encoding for run in statuses)
    table = [[encoding, *(counted(cells.get((encoding, task), Counter())) for task in tasks)] for encoding in encodings]
    return tabulate(table, headers=["encoding", *tasks], tablefmt="simple")


def counted(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])


def totals(queue: Queue, statuses: dict[Run, Status], out: Path) -> str:
    counts = counted(Counter(status.state for status in statuses.values()))
    nothing = nothing_there(queue.suite, out)
    return f"\n{len(statuses)} runs: {counts}{f'; {nothing}' if nothing else ''}"


def nothing_there(suite: str, out: Path) -> str:
    """That all is missing may mean that another folder was meant."""
    if not os.path.isdir(out):
        return f"there is no folder {out}"
    return "" if os.path.isdir(f"{out}/{suite}") else f"nothing of suite {suite} is in {out}"


def cluster(queue: Queue, statuses: dict[Run, Status], out: Path) -> list[str]:
    """Jobs, what they have used, and what is left to do."""
    if not queue.submissions:
        return []
    if queue.silence:
        return [f"SLURM was not asked about the jobs: {queue.silence}"]
    states = Counter(info.state.lower() for _, info in queue.live.values())
    lines = [f"{len(queue.live)} jobs in the queue"]
    if states:
        lines[0] += f": {', '.join(f'{n} {state}' for state, n in states.most_common())}"
    waits = Counter(info.reason for _, info in queue.live.values() if info.state == "PENDING")
    if reasons := [f"{n} {reason}" for reason, n in waits.most_common(3) if reason not in ("None", "")]:
        lines[0] += f" ({', '.join(reasons)})"
    if queue.hours() is None:
        lines.append("this cluster keeps no accounts (sacct does not answer): hours used and how jobs ended are not known")
    elif any(hours := queue.hours()):  # type: ignore[arg-type]
        gpu, cpu = hours  # type: ignore[misc]
        lines.append(f"used so far: {f'{gpu:.2f} GPU-hours, ' if gpu else ''}{cpu:.2f} CPU-hours")
    if todo := unfinished(statuses):
        lines.append(left(queue, statuses, todo, out))
    return lines


def left(queue: Queue, statuses: dict[Run, Status], todo: Sequence[Run], out: Path) -> str:
    """An estimate of what the runs that are not over still need."""
    plan = queue.submissions[-1].plan
    estimate = Estimate(todo[0].suite, out, plan.cluster.device)
    seconds = sum(estimate.seconds(run) * (1 - min(1.0, statuses[run].step / run.steps)) for run in todo)
    per_run = max(plan.cluster.gpus_per_job, 1 if plan.cluster.device == "cpu" else 0) / plan.cluster.at_once
    kind = "GPU" if plan.cluster.gpus_per_job else "CPU"
    if kind == "CPU":
        per_run *= plan.cluster.cpus_per_job
    line = f"left: about {seconds * per_run / 3600:.2f} {kind}-hours{' (guessed)' if estimate.guessed else ''}"
    if at_once := sum(status.state == "running" for status in statuses.values()):
        line += f", {clock(seconds / at_once)} at {at_once} runs at a time"
    return line


def running(statuses: dict[Run, Status]) -> list[str]:
    """Runs that a job is at."""
    from tabulate import tabulate

    here = [(run, status) for run, status in statuses.items() if status.state == "running" and status.job]
    if not here:
        return []
    table = [[run, f"{s.step}/{run.steps}", f"{s.rate:.1f}", s.node, s.job, s.left] for run, s in here[:SHOWN]]
    text = tabulate(
        table, headers=["running", "step", "steps/s", "node", "job", "time left"], tablefmt="simple", disable_numparse=True
    )
    rate = statistics.fmean(status.rate for _, status in here)
    more = f"\n… and {len(here) - SHOWN} more" if len(here) > SHOWN else ""
    return ["", text + more, f"{len(here)} running, {rate:.1f} steps/s each"]


def failed(queue: Queue, statuses: dict[Run, Status], out: Path) -> list[str]:
    """Runs that broke, with the reason and the last lines of the log; runs whose job is gone, with what became of it."""
    lines: list[str] = []
    broken = [(run, status) for run, status in statuses.items() if status.state == "failed"]
    for run, status in broken[:SHOWN]:
        lines.append(f"  {run}: {status.reason}")
        if status.job and (found := queue.latest.get(run.key)):
            lines += [f"      | {line}" for path in found[0].logs(found[1])[:1] for line in tail(path, LOG_LINES)]
    if broken:
        lines = ["", f"{len(broken)} failed; lprime run … --retry-failed runs them again:", *lines]
    if len(broken) > SHOWN:
        lines.append(f"  … and {len(broken) - SHOWN} more")
    lost = Counter(status.reason for status in statuses.values() if status.state in ("missing", "paused") and status.reason)
    if lost:
        lines += ["", "runs without a job, which lprime run … --on … submits again:"]
        lines += [f"  {count}: {reason}" for reason, count in lost.most_common(SHOWN)]
    return lines


def logs_of(queue: Queue, runs: Sequence[Run], out: Path, lines: int) -> list[str]:
    """The last lines of the logs of the jobs that had these runs, if any, and the reports of those that failed."""
    text: list[str] = []
    seen: set[Path] = set()
    for run in runs:
        found = queue.latest.get(run.key)
        for path in found[0].logs(found[1]) if found else []:
            if path in seen:
                continue
            seen.add(path)
            if said := tail(path, lines):
                text += [f"==> {path} <==", *said, ""]
        if failure := run.failure(out):
            text += [f"==> {run.folder(out) / FAILURE} <==", *failure.traceback.splitlines()[-lines:], failure.error, ""]
    return text or ["these jobs have not printed anything yet"]
