"""``lprime logs``: logs of cluster jobs, and failures."""

from pathlib import Path
from typing import Annotated

import typer

from .completion import complete_encoding, complete_task
from .options import Json, Out, Suite, print_json, runs_folder
from .read_results import full_name


def logs(
    suite: Suite,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only runs of this task.", autocompletion=complete_task)
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only runs of this encoding.", autocompletion=complete_encoding)
    ] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Only runs of this seed.")] = None,
    lines: Annotated[int, typer.Option(metavar="N", min=1, help="Last lines of each log.")] = 40,
    out: Out = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show logs of cluster jobs, and why runs failed.

    The log of a run is that of its latest job. Failures on this machine are shown too.
    """
    from bench.runs.run import Run
    from bench.suites.suite import load_suite
    from slurm.status import Queue, runs_on_disk
    from slurm.text import read_logs
    from tasks import InputError, unknown

    loaded, out = load_suite(suite), runs_folder(out)
    queue = Queue.read(out, loaded, need=False)
    known = [Run(loaded, *key) for key in dict.fromkeys([*queue.latest, *runs_on_disk(loaded, out)])]
    tasks = dict.fromkeys([*(spec.task for spec in loaded.tasks), *(run.task for run in known)])
    ran = dict.fromkeys(run.encoding for run in known)
    if task not in (None, *tasks):
        raise unknown(f"task of suite {suite}", str(task), tasks)
    if encoding not in (None, *ran):
        encoding = full_name(str(encoding))
        if encoding not in (encodings := dict.fromkeys([*loaded.encoding_names, *ran])):
            raise unknown(f"encoding among the runs of suite {suite}", encoding, encodings)
    wanted = {"task": task, "encoding": encoding, "seed": seed}
    chosen = [run for run in known if all(value in (None, getattr(run, field)) for field, value in wanted.items())]
    runs = [run for run in chosen if run.key in queue.latest or run.failure(out)]
    if not runs:
        which = " ".join(str(value) for value in wanted.values() if value is not None)
        raise InputError(f"no cluster job and no failed run{f' of {which}' if which else ''} in suite {suite} under {out}")
    logs = read_logs(runs, queue, out, lines)
    if as_json:
        return print_json([{"file": str(path), "lines": log} for path, log in logs.items()])
    for path, log in logs.items():
        print("\n".join([f"==> {path} <==", *log, ""]))
    if not logs:
        print("these jobs have not printed anything yet")
