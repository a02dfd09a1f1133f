"""``lprime probe``: what trained models do inside."""

import os
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Encodings, Json, On, OutOrShared, Tasks, Workers, print_json

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from bench.probe.record import ProbeRecord
    from bench.probe.similarity import Rows
    from bench.runs.run import Run

LOSS, THEOREM = "loss", "theorem"


def probe(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME]... SUITE",
            help="Probes (all by default): position, distance, growth, similarity, context, needle, excess; or loss: the loss "
            "within L by length and size, of finished runs. The last one is the suite. `lprime probe theorem` needs none: "
            "positions without an encoding, by weights constructed by hand.",
            show_default=False,
        ),
    ],
    encoding: Encodings = None,
    task: Tasks = None,
    seed: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Only these seeds (repeatable) [default: the suite's first].")
    ] = None,
    workers: Workers = None,
    out: OutOrShared = None,
    on: On = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be trained, as lprime run does.")] = False,
    as_json: Json = False,
) -> int:
    """Measure what trained models do inside, and train those that are missing.

    Results are files next to the runs' own, probe-<name>.json; what is measured already is read from them.
    """
    from bench.plugins.registry import is_built_in
    from bench.probe.measure import PROBES, SIMILARITY, VERSIONS, measure_similarity, read_rows
    from bench.runs.run import plan_runs
    from bench.suites.suite import load_suite
    from slurm.cluster import load_cluster
    from tasks import InputError, unknown

    from .selection import expand, try_encodings

    if dry_run and as_json:
        raise InputError("--dry-run shows text; expected it without --json")
    *names, suite_name = arguments
    if (names, suite_name) == ([], THEOREM):
        return print_theorem(as_json)
    if suite_name in (*VERSIONS, LOSS):
        raise InputError(f"expected lprime probe NAME SUITE: the suite comes last, got {suite_name!r}")
    for name in names:
        if name == THEOREM:
            raise InputError("the probe theorem needs no suite and no other probe; expected lprime probe theorem")
        if name not in (*VERSIONS, LOSS):
            raise unknown("probe", name, (*VERSIONS, LOSS))
    suite = load_suite(suite_name)
    out = load_cluster(on).results_folder(out, dry_run) if on else out or Path("runs")
    if LOSS in names:
        if len(names) > 1:
            raise InputError("the probe loss reads finished runs and measures nothing; ask for it alone")
        if seed or dry_run:
            raise InputError(f"the probe loss reads all finished runs; expected no {'--seed' if seed else '--dry-run'} with it")
        return print_losses(suite, out, try_encodings(expand(encoding)) if encoding else None, task, as_json)
    runs = plan_runs(suite, try_encodings(expand(encoding) if encoding else suite.encodings), task, seed or suite.seeds[:1])
    chosen = [name for name in VERSIONS if name in (names or VERSIONS)]
    runs = [run for run in runs if any(name == SIMILARITY or PROBES[name].applies(run) for name in chosen)]
    if not runs:
        raise InputError(f"{', '.join(chosen)}: defined for none of the chosen tasks of suite {suite.name}")
    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # progress
        code = train_missing(suite_name, runs, workers, out, on, dry_run)
        if dry_run:
            return code
        runs = [run for run in runs if run.result(out)]
        records = measure_all(runs, out, [name for name in chosen if name != SIMILARITY], workers)
        if SIMILARITY in chosen:
            built_in = all(is_built_in(run.encoding) for run in runs)
            records += measure_similarity(runs, out, read_rows if built_in else read_rows_apart)
    show(records, as_json)
    return code


def train_missing(suite: str, runs: "list[Run]", workers: int | None, out: Path, on: str | None, dry_run: bool) -> int:
    """Train the runs without a result, with their weights kept; the exit code of ``lprime run``."""
    from . import app

    missing = [r for r in runs if not r.result(out)]
    if not missing:
        if dry_run:
            print("all runs have a result; nothing to train")
        return 0
    words = ["run", suite, "--out", str(out), "--keep-weights", "--extra-seeds"]
    for option, values in (
        ("--encoding", (r.encoding for r in missing)),
        ("--task", (r.task for r in missing)),
        ("--seed", (str(r.seed) for r in missing)),
    ):
        words += [word for value in dict.fromkeys(values) for word in (option, value)]
    words += ["--workers", str(workers)] if workers and not on else []
    words += ["--on", on] if on else []
    return app([*words, *["--dry-run"] * dry_run], standalone_mode=False) or 0


def measure_all(runs: "list[Run]", out: Path, probes: list[str], workers: int | None) -> "list[ProbeRecord]":
    """The records of all runs, measured in worker processes."""
    import torch

    from bench.plugins.registry import is_built_in
    from bench.probe.measure import is_measured, measure_run
    from bench.runs.devices import available_cores
    from bench.runs.progress import say
    from bench.runs.shared_training import weights_file
    from bench.runs.worker import RunRequest
    from tasks import plural

    torch.set_num_threads(1)  # as in the workers, so that numbers are the same
    todo = [run for run in runs if not is_measured(run, out, probes)]
    if without := sum(not weights_file(run, out).exists() for run in todo):
        say(f"{plural(without, 'finished run')} without stored weights: trained again")
    count = min(workers or available_cores(), len(todo))
    plugins = not all(is_built_in(run.encoding) for run in todo)
    if count > 1 or plugins:
        with process_pool(count, plugins) as pool:
            jobs = [pool.submit(measure_request, RunRequest.of(run), out, probes) for run in todo]
            for run, job in zip(todo, jobs, strict=True):
                say(f"{run}: {job.result():.1f} s")
    return [record for run in runs for record in measure_run(run, out, probes)]


def process_pool(count: int, plugins: bool) -> "ProcessPoolExecutor":
    """Processes with one thread each. One that has loaded a plugin measures nothing else."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from bench.runs.worker import end_with_parent

    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes when they import torch
    return ProcessPoolExecutor(count, get_context("spawn"), end_with_parent, max_tasks_per_child=1 if plugins else None)


def read_rows_apart(run: "Run", out: Path) -> "Rows":
    """``read_rows`` in a process of its own, which plugins of other runs have not touched."""
    import torch

    from bench.runs.worker import RunRequest

    with process_pool(1, plugins=True) as pool:
        rows = pool.submit(read_rows_request, RunRequest.of(run), out).result()
    return {length: [torch.from_numpy(layer) for layer in layers] for length, layers in rows.items()}


def read_rows_request(request, out: Path) -> dict:
    """``read_rows`` in this process, as arrays."""
    import torch

    from bench.probe.measure import read_rows

    torch.set_num_threads(1)
    request.load_encoding()
    return {length: [layer.numpy() for layer in layers] for length, layers in read_rows(request.run(), out).items()}


def measure_request(request, out: Path, probes: list[str]) -> float:
    """Measure one run in this process; returns the seconds it took."""
    import time

    import torch

    from bench.probe.measure import measure_run

    torch.set_num_threads(1)
    start = time.perf_counter()
    request.load_encoding()
    measure_run(request.run(), out, probes)
    return time.perf_counter() - start


def show(records: "list[ProbeRecord]", as_json: bool) -> None:
    if as_json:
        print("[" + ",\n".join(record.model_dump_json() for record in records) + "]")
        return
    from bench.probe.tables import tables

    print_tables(tables(records))


def print_tables(tables) -> None:
    from tabulate import tabulate

    for table in tables:
        print(f"{table.title}\n")
        columns = ["left"] + ["right"] * (len(table.header) - 1)
        print(tabulate(table.rows, headers=wrapped(table.header), colalign=columns, disable_numparse=True) + "\n")


def wrapped(header: list[str]) -> list[str]:
    """Titles with a line break after each comma, which keeps columns narrow."""
    return [title.replace(", ", ",\n").replace(": ", ":\n") for title in header]


def print_losses(suite, out: Path, encodings: list[str] | None, tasks: list[str] | None, as_json: bool) -> int:
    from bench.probe.loss import losses, sizes_of
    from bench.probe.tables import loss_tables
    from leaderboard.data.collect import no_results, read_results
    from tasks import unknown

    for name in tasks or []:
        suite.spec(name)
    found = losses((own, result) for own in sizes_of(suite) for result in read_results(out / own.name))
    if not found:
        raise no_results(suite, out / suite.name)
    for kind, given in (("task", tasks), ("encoding", encodings)):
        known = dict.fromkeys(getattr(x, kind) for x in found)
        if given and known.keys().isdisjoint(given):
            raise unknown(f"{kind} with results", given[0], known)
        found = [x for x in found if not given or getattr(x, kind) in given]
    if as_json:
        print_json([x._asdict() for x in found])
    else:
        print_tables(loss_tables(found))
    return 0


def print_theorem(as_json: bool) -> int:
    import torch

    from bench.probe.theorem import permutation_errors, report, run_theorem

    torch.set_num_threads(1)
    found, permuted = run_theorem(), permutation_errors()
    numbers = {"errors": found.errors, "permuted": {"with mask": permuted[True], "without mask": permuted[False]}}
    if as_json:
        print_json(numbers)
    else:
        print(report(found, permuted))
    return 0
