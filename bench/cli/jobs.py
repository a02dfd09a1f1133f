"""``lprime status``, ``lprime logs``, ``lprime cancel``: how far a grid is, here and on a cluster."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

Suite = Annotated[str, typer.Argument(metavar="SUITE", help="A suite's name, or the path of its YAML file.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where results live.")]


def register(app: typer.Typer) -> None:
    app.command()(status)
    app.command()(logs)
    app.command()(cancel)


def status(
    suite: Suite,
    out: Out = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of objects.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Look again and again, until Ctrl-C or until all is over.")] = False,
    every: Annotated[float, typer.Option(metavar="S", help="Seconds between two looks of --watch.")] = 15,
) -> None:
    """How far each run of a suite is: done, diverged, failed, running, queued, paused or missing."""
    from bench.runs import plan
    from bench.suite import load_suite
    from slurm.report import over, rows, show
    from slurm.states import Queue
    from tasks import InputError

    if not every > 0:
        raise InputError(f"--every must be more than 0 seconds, got {every}")
    if watch and as_json:
        raise InputError("--watch is to be read, --json to be parsed; expected one of them")
    loaded, out = load_suite(suite), out.expanduser().resolve()

    def look():
        queue = Queue.read(out, loaded.name, need=False)
        runs = list(dict.fromkeys([*plan(loaded), *queue.runs(loaded)]))
        return queue, queue.statuses(runs, out)

    if as_json:
        print(json.dumps(rows(look()[1]), indent=1))
    elif watch:
        from rich.live import Live

        queue, statuses = look()
        with Live(show(queue, statuses, out), auto_refresh=False, vertical_overflow="visible") as live:
            while not over(statuses):
                time.sleep(every)
                queue, statuses = look()
                live.update(show(queue, statuses, out), refresh=True)
    else:
        from rich.console import Console

        queue, statuses = look()
        Console(soft_wrap=True, highlight=False, markup=False).print(show(queue, statuses, out))


def logs(
    suite: Suite,
    task: Annotated[str | None, typer.Option(metavar="NAME", help="Of this task's runs.")] = None,
    encoding: Annotated[str | None, typer.Option(metavar="NAME", help="Of this encoding's runs.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Of this seed's runs.")] = None,
    lines: Annotated[int, typer.Option(metavar="N", help="Last lines of each log.")] = 40,
    out: Out = Path("runs"),
) -> None:
    """What the cluster's jobs printed, and why runs failed: of the last job that had each run."""
    from bench.suite import load_suite
    from slurm.report import logs_of
    from slurm.states import Queue
    from tasks import InputError

    if lines < 1:
        raise InputError(f"--lines must be 1 or more, got {lines}")
    loaded, out = load_suite(suite), out.expanduser().resolve()
    queue = Queue.read(out, loaded.name, need=False)
    runs = [
        run
        for run in queue.runs(loaded)
        if (task in (None, run.task)) and (encoding in (None, run.encoding)) and (seed in (None, run.seed))
    ]
    if not runs:
        asked = " ".join(f"{value}" for value in (task, encoding, seed) if value is not None)
        raise InputError(f"no job of suite {loaded.name} under {out} ever had a run{f' of {asked}' if asked else ''}")
    for line in logs_of(queue, runs, out, lines):
        print(line)


def cancel(suite: Suite, out: Out = Path("runs")) -> None:
    """Take a suite's jobs out of the cluster's queue. What they have saved stays: lprime run goes on from there."""
    from bench.suite import load_suite
    from slurm import site
    from slurm.states import Queue

    loaded, out = load_suite(suite), out.expanduser().resolve()
    queue = Queue.read(out, loaded.name)
    names = {s.plan.name for s in queue.submissions}
    ids = [id for id, (name, _) in queue.live.items() if name in names]
    if not ids:
        print(f"no job of suite {loaded.name} under {out} is in the queue")
        return
    site.cancel(sorted({id.split("_")[0] for id in ids}))
    print(f"{len(ids)} jobs cancelled; their runs are saved: lprime run {suite} --on … goes on from there")
