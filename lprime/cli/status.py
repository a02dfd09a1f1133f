"""``lprime status``: the state of each run of a suite, on this machine and on a cluster."""

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Encodings, Json, Out, Seeds, Suite, Tasks, Vary, check_positive, print_json, runs_folder

if TYPE_CHECKING:
    from bench.runs.run import Run
    from bench.suites.suite import Suite as LoadedSuite
    from slurm.status import Queue, Status

DAY_S = 86400


def status(
    suite: Suite,
    vary: Vary = False,
    encoding: Encodings = None,
    task: Tasks = None,
    seed: Seeds = None,
    out: Out = Path("runs"),
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until all runs have ended, or Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(metavar="S", help="Seconds between refreshes of --watch.")] = 15,
) -> None:
    """Show the state of each run of a suite.

    States are done, diverged, failed, running, queued, paused and missing.
    """
    from bench.runs.run import plan_runs
    from bench.suites.suite import load_suites
    from slurm.status import Queue, unfinished
    from slurm.status_text import empty_folder_hint, status_rows, status_text
    from tasks import InputError, unknown

    from .read_results import full_name
    from .selection import expand

    check_positive("--every", every, DAY_S)
    if watch and as_json:
        raise InputError("expected --watch or --json, got both")
    suites, out = load_suites(suite, vary), runs_folder(out)
    refuse_unknown(suites[0], out)

    given = encoding or []
    named = [full_name(name) for name in given if expand([name]) == [name]]  # not a group
    wanted = {"encoding": [full_name(name) for name in expand(given)], "task": task, "seed": seed}
    asked = {field: values for field, values in wanted.items() if values}

    def read_statuses() -> "list[tuple[Queue, dict[Run, Status]]]":
        queues = [Queue.read(out, one, need=False) for one in suites]
        found = [(queue, queue.all_statuses(out)) for queue in queues]
        for field, values in asked.items():
            known = {str(getattr(run, field)): run for _, statuses in found for run in statuses}
            for value in map(str, values):
                if value not in known and (field != "encoding" or value in named):
                    raise unknown(f"{field} among the runs of suite {suite}", value, known)

        def is_asked(run: "Run") -> bool:
            return all(getattr(run, field) in values for field, values in asked.items())

        chosen = [(queue, {run: s for run, s in statuses.items() if is_asked(run)}) for queue, statuses in found]
        if not any(statuses for _, statuses in chosen):
            raise InputError(f"suite {suite} has no run with {' and '.join(f'this {field}' for field in asked)}")
        return chosen

    if as_json:
        if nothing := empty_folder_hint(suites[0].name, out):
            print(f"lprime: {nothing}", file=sys.stderr)
        print_json([row for _, statuses in read_statuses() for row in status_rows(statuses)])
    elif watch:
        from rich.live import Live

        def ended():
            # Do not wait for abandoned runs of encodings outside the suite.
            ours = [{run.key for run in plan_runs(queue.suite)} | set(queue.latest) for queue, _ in found]
            return not any(
                unfinished({run: status for run, status in statuses.items() if run.key in keys or status.state == "running"})
                for keys, (_, statuses) in zip(ours, found, strict=True)
            )

        found = read_statuses()
        with Live(status_text(found, out, not asked), auto_refresh=False, vertical_overflow="visible") as live:
            while not ended():
                time.sleep(every)
                found = read_statuses()
                live.update(status_text(found, out, not asked), refresh=True)
    else:
        from rich.console import Console

        Console(soft_wrap=True, highlight=False, markup=False).print(status_text(read_statuses(), out, not asked))


def refuse_unknown(suite: "LoadedSuite", out: Path) -> None:
    """Refuse a suite's unknown encoding, as ``lprime run`` does.

    Names in a shipped suite or with runs under ``out`` are known; looking up any other loads torch, which is slow.

    Raises:
        InputError: with the nearest match.
    """
    from bench.suites.suite import shipped
    from bench.suites.yaml_config import read_yaml

    started = {name for name in suite.encodings for s in suite.tasks if os.path.isdir(out / suite.name / s.task / name)}
    if started.issuperset(suite.encodings):
        return
    shipped_names = {name for path in shipped().values() for name in read_yaml(path, "suite", "encodings")["encodings"]}
    for name in suite.encodings:
        if name not in started | shipped_names:
            from bench.plugins.registry import full_name as stored_name

            stored_name(name)
