"""``python benchmarks/grid.py small text --minutes 8``: continue the runs of suites for some minutes.

Finished runs are kept in ``benchmarks/runs/<suite>.jsonl.gz``, one result a line, so that a grid of days can be made in calls
of minutes on different machines; ``--out`` is a folder of runs as ``lprime run`` makes it. The learning rate in the middle runs
first, and long runs before short ones. Several workers share a GPU best with NVIDIA's Multi-Process Service.
"""

import gzip
import json
import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from bench.files import write_atomic
from bench.result import RESULT, run_path
from bench.runs.pool import local_pool
from bench.runs.progress import Event
from bench.runs.run import Run, plan_runs
from bench.suites.suite import Suite, load_suite

STORE = Path(__file__).parent / "runs"


def main(
    suites: Annotated[list[str], typer.Argument(metavar="SUITE…")],
    minutes: Annotated[float, typer.Option(min=0)] = 8.0,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
    device: str = "auto",
    rate: Annotated[list[float] | None, typer.Option(metavar="R", help="Only these learning rates.")] = None,
    out: Annotated[Path, typer.Option(metavar="DIR")] = Path("runs"),
) -> None:
    """Continue the runs of suites, and keep the finished ones."""
    start, finished, runs = time.monotonic(), list[Run](), list[Run]()
    for suite in map(load_suite, suites):
        unpack(suite, out)
        runs += [run for run in in_order(suite, rate) if run.result(out) is None]

    def on_event(event: Event) -> None:
        if event.kind == "finished":
            finished.append(event.run)
        if event.kind == "failed" or (event.kind == "finished" and len(finished) % 20 == 0):
            print(f"{len(finished)} of {len(runs)}: {event.run}: {event.text[:200]}", flush=True)

    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, max(0.1, 60 * minutes))
    try:
        local_pool(workers, device).execute(runs, out, on_event)
    except KeyboardInterrupt:
        print("out of time, or stopped; the same command goes on")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for suite in map(load_suite, suites):
            pack(suite, out)
    took, steps = time.monotonic() - start, sum(run.steps for run in finished)
    print(f"{len(finished)} of {len(runs)} runs, {steps:,} steps in {took:.0f} s, {steps / took:,.0f} a second")


def in_order(suite: Suite, rates: list[float] | None) -> list[Run]:
    """The runs of a suite: rates near the middle of the sweep first, then the ones with more tokens."""
    runs, sweep = plan_runs(suite, rates=rates), suite.learning_rates
    tokens = {run: run.steps * run.recipe.batch * run.recipe_suite.make_task(run.task).tokens(run.train_length) for run in runs}
    middle = {rate: abs(place - len(sweep) / 2) for place, rate in enumerate(sweep)}
    return sorted(runs, key=lambda run: (middle.get(run.learning_rate or 0, 0), -tokens[run]))


def unpack(suite: Suite, out: Path) -> None:
    """Write the kept results of a suite as run folders."""
    if (kept := STORE / f"{suite.name}.jsonl.gz").exists():
        for line in gzip.decompress(kept.read_bytes()).decode().splitlines():
            result = json.loads(line)
            path = run_path(suite.name, result["task"], result["encoding"]["name"], result["seed"], result["learning_rate"])
            if not (file := out / path / RESULT).exists():
                write_atomic(file, json.dumps(result, indent=1) + "\n")


def pack(suite: Suite, out: Path) -> None:
    """Keep all finished runs of a suite; equal runs give equal bytes."""
    files = [file for run in plan_runs(suite) if (file := out / run.path / RESULT).exists()]
    lines = "".join(json.dumps(json.loads(file.read_text())) + "\n" for file in files)
    (STORE / f"{suite.name}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))


if __name__ == "__main__":
    typer.run(main)
