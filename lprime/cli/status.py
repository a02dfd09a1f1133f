"""``lprime status``, ``logs`` and ``cancel``: the state of each run of a suite, on this machine and on a cluster."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Encodings, Json, Out, Seeds, Suite, Tasks, full_name, print_json

if TYPE_CHECKING:
    from bench.runs.run import Run
    from slurm.status import Queue, Status

END_WITHIN_S = 60.0
"""Time that cancelled jobs are given to save their runs and leave the queue."""


def status(
    suite: Suite,
    encoding: Encodings = None,
    task: Tasks = None,
    seed: Seeds = None,
    out: Out = Path("runs"),
    as_json: Json = False,
) -> int:
    """Show the state of each run of a suite.

    States are done, diverged, failed, running, queued, paused, missing and unreadable; the exit code is 1 if a run's files
    cannot be read.
    """
    from slurm.text import empty_folder_hint, status_rows, status_text

    queue, statuses = read_statuses(suite, out, encoding, task, seed)
    if as_json:
        if nothing := empty_folder_hint(queue.suite.name, out):
            print(f"lprime: {nothing}", file=sys.stderr)
        print_json(status_rows(statuses))
    else:
        from rich.console import Console

        text = status_text(queue, statuses, out, whole=not (encoding or task or seed))
        Console(soft_wrap=True, highlight=False, markup=False).print(text)
    return int(any(status.state == "unreadable" for status in statuses.values()))


def logs(
    suite: Suite,
    encoding: Encodings = None,
    task: Tasks = None,
    seed: Seeds = None,
    lines: Annotated[int, typer.Option(metavar="N", min=1, help="Last lines of each log.")] = 40,
    out: Out = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show logs of cluster jobs, and why runs failed, here or on a cluster. The log of a run is that of its latest job."""
    from slurm.text import read_logs

    queue, statuses = read_statuses(suite, out, encoding, task, seed)
    found = read_logs(statuses, queue, out, lines)
    if as_json:
        return print_json([{"file": str(path), "lines": log} for path, log in found.items()])
    for path, log in found.items():
        print("\n".join([f"==> {path} <==", *log, ""]))
    if not found:
        print("these runs have no logs: none has failed, and no cluster job of theirs has printed anything")


def read_statuses(
    suite: str, out: Path, encodings: list[str] | None, tasks: list[str] | None, seeds: list[int] | None
) -> "tuple[Queue, dict[Run, Status]]":
    """The queue, and the state of the runs that are asked for.

    Raises:
        InputError: a name or seed that no run has, with the nearest match.
    """
    from bench.suites.suite import load_suite
    from slurm.status import Queue
    from tasks import InputError, unknown

    from .selection import expand

    queue = Queue.read(out, load_suite(suite), need=False)
    statuses = queue.all_statuses(out)
    groups = {name for name in encodings or () if expand([name]) != [name]}
    asked: dict[str, list] = {
        "encoding": [full_name(name) for name in expand(encodings or [])],
        "task": tasks or [],
        "seed": seeds or [],
    }
    for field, values in asked.items():
        known = {str(getattr(run, field)): run for run in statuses}
        for value in map(str, values):
            if value not in known and not (field == "encoding" and groups):
                raise unknown(f"{field} among the runs of suite {suite}", value, known)
        if values:
            statuses = {run: status for run, status in statuses.items() if getattr(run, field) in values}
    if not statuses:
        raise InputError(f"suite {suite} has no run of these encodings, tasks and seeds")
    return queue, statuses


def cancel(suite: Suite, out: Out = Path("runs")) -> None:
    """Cancel a suite's cluster jobs. Their runs are saved: lprime run resumes them."""
    from bench.suites.suite import load_suite, suite_command
    from slurm import commands
    from slurm.status import Queue
    from tasks import InputError, plural

    loaded = load_suite(suite)
    queue = Queue.read(out, loaded, need=False)
    if queue.no_answer:
        raise InputError(queue.no_answer)
    if not queue.live:
        print(f"no job of suite {suite} under {out} is in the queue")
        return
    commands.cancel_jobs(sorted({id.split("_")[0] for id in queue.live}))
    deadline = time.monotonic() + END_WITHIN_S  # until then, lprime run would count their runs as running
    while time.monotonic() < deadline and queue.live.keys() & Queue.read(out, loaded, need=False).live.keys():
        time.sleep(1)
    command = suite_command("run", suite, out=out)
    print(f"{plural(len(queue.live), 'job')} cancelled; to resume their runs: {command} --on …")
