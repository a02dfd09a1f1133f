"""``lprime status``, ``lprime logs``, ``lprime cancel``: how far a grid is, here and on a cluster."""

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from bench.suite import Suite as Loaded

Suite = Annotated[str, typer.Argument(metavar="SUITE", help="A suite's name, or the path of its YAML file.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where results live.")]
DAY_S = 86400


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
    """How far each run of a suite is, other encodings' too: done, diverged, failed, running, queued, paused or missing."""
    from bench.runs import plan
    from bench.suite import load_suite
    from slurm.report import nothing_there, over, rows, show
    from slurm.states import Queue
    from tasks import InputError

    if not 0 < every <= DAY_S:
        raise InputError(f"--every must be more than 0 seconds and at most a day, {DAY_S}, got {every:g}")
    if watch and as_json:
        raise InputError("--watch is to be read, --json to be parsed; expected one of them")
    loaded, out = load_suite(suite), results_folder(out)
    refuse_unknown(loaded, out)

    def look():
        queue = Queue.read(out, loaded.name, need=False)
        return queue, queue.all_statuses(loaded, out)

    if as_json:
        if nothing := nothing_there(loaded.name, out):
            print(f"lprime: {nothing}", file=sys.stderr)
        print(json.dumps(rows(look()[1]), indent=1))
    elif watch:
        from rich.live import Live

        def ended():
            # A run of another encoding that was once left in the middle is nobody's to wait for.
            ours = {run.key for run in plan(loaded)} | set(queue.latest)
            return over({run: found for run, found in statuses.items() if run.key in ours or found.state == "running"})

        queue, statuses = look()
        with Live(show(queue, statuses, out), auto_refresh=False, vertical_overflow="visible") as live:
            while not ended():
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
    """What the cluster's jobs printed, of the last job that had each run, and why runs failed, there or here."""
    from bench.runs import Run
    from bench.suite import load_suite
    from slurm.report import logs_of
    from slurm.states import Queue, on_disk
    from tasks import InputError, unknown

    from .results import filed_under

    if lines < 1:
        raise InputError(f"--lines must be 1 or more, got {lines}")
    loaded, out = load_suite(suite), results_folder(out)
    queue = Queue.read(out, loaded.name, need=False)
    known = dict.fromkeys([*queue.latest, *on_disk(loaded, out)])
    tasks = dict.fromkeys([*(spec.task for spec in loaded.tasks), *(key[0] for key in known)])
    encodings = dict.fromkeys([*filter(str.isidentifier, loaded.encodings), *(key[1] for key in known)])
    if task not in (None, *tasks):
        raise unknown(f"task of suite {loaded.name}", str(task), tasks)
    if encoding not in (None, *encodings):
        encoding = filed_under(str(encoding))
        if encoding not in encodings:
            raise unknown(f"encoding among the runs of suite {loaded.name}", encoding, encodings)
    asked = (task, encoding, seed)
    chosen = [Run(loaded, *key) for key in known if all(a in (None, k) for a, k in zip(asked, key, strict=True))]
    runs = [run for run in chosen if run.key in queue.latest or run.failure(out)]
    if not runs:
        whose = " ".join(f"{value}" for value in asked if value is not None)
        raise InputError(
            f"no job of suite {loaded.name} under {out} ever had a run{f' of {whose}' if whose else ''}, and none failed here"
        )
    for line in logs_of(queue, runs, out, lines):
        print(line)


def cancel(suite: Suite, out: Out = Path("runs")) -> None:
    """Take a suite's jobs out of the cluster's queue. What they have saved stays: lprime run goes on from there."""
    from bench.suite import load_suite
    from slurm import site
    from slurm.states import Queue

    loaded, out = load_suite(suite), results_folder(out)
    queue = Queue.read(out, loaded.name)
    names = {s.plan.name for s in queue.submissions}
    ids = [id for id, (name, _) in queue.live.items() if name in names]
    if not ids:
        print(f"no job of suite {loaded.name} under {out} is in the queue")
        return
    site.cancel(sorted({id.split("_")[0] for id in ids}))
    print(f"{len(ids)} jobs cancelled; their runs are saved: lprime run {suite} --on … goes on from there")


def results_folder(out: Path) -> Path:
    """``--out`` as an absolute path; it need not be there yet.

    Raises:
        InputError: it is a file.
    """
    from tasks import InputError

    out = out.expanduser().resolve()
    if os.path.exists(out) and not os.path.isdir(out):
        raise InputError(f"--out {out} is a file; expected the folder that results are in, such as runs")
    return out


def refuse_unknown(suite: "Loaded", out: Path) -> None:
    """Refuse a suite's unknown encoding as ``lprime run`` does.

    Looking a name up loads torch, which takes longer than all the rest: names that a shipped suite has, or that have runs here,
    are known without.

    Raises:
        InputError: with the nearest match.
    """
    from bench.strict import read_yaml
    from bench.suite import shipped

    begun = {name for name in suite.encodings for s in suite.tasks if os.path.isdir(out / suite.name / s.task / name)}
    if begun.issuperset(suite.encodings):
        return
    usual = {name for path in shipped().values() for name in read_yaml(path, "suite", "encodings")["encodings"]}
    for name in suite.encodings:
        if name not in begun | usual:
            from bench import encodings

            encodings.get(name)
