"""``lprime probe``: what trained models do inside."""

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Encodings, Json, On, OutOrShared, Tasks, Workers

if TYPE_CHECKING:
    from bench.probe.record import ProbeRecord
    from bench.runs.run import Run


def probe(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME]... SUITE",
            help="Probes (all by default): position, distance, growth, similarity, context, needle, excess. The last one "
            "is the suite.",
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

    Numbers are files next to the runs' own, probe-<name>.json, and `lprime export --probes` writes them as one table. What is
    measured already is read from these files.
    """
    from bench.probe.measure import VERSIONS, applies, measure_runs
    from bench.runs.run import plan_runs
    from bench.suites.suite import load_suite
    from tasks import InputError, unknown

    from .selection import expand, try_encodings

    if dry_run and as_json:
        raise InputError("--dry-run shows text; expected it without --json")
    *names, suite_name = arguments
    if suite_name in VERSIONS:
        raise InputError(f"expected lprime probe NAME SUITE: the suite comes last, got {suite_name!r}")
    for name in names:
        if name not in VERSIONS:
            raise unknown("probe", name, VERSIONS)
    suite = load_suite(suite_name)
    out = out or Path("runs")
    runs = plan_runs(suite, try_encodings(expand(encoding) if encoding else suite.encodings), task, seed or suite.seeds[:1])
    chosen = [name for name in VERSIONS if name in (names or VERSIONS)]
    runs = [run for run in runs if any(applies(name, run) for name in chosen)]
    if not runs:
        raise InputError(f"{', '.join(chosen)}: defined for none of the chosen tasks of suite {suite.name}")
    with redirect_stdout(sys.stderr) if as_json else nullcontext():  # progress
        code = train_missing(suite_name, runs, workers, out, on, dry_run)
        if dry_run:
            return code
        records = measure_runs([run for run in runs if run.result(out)], out, chosen, workers)
    if as_json:
        print("[" + ",\n".join(record.model_dump_json() for record in records) + "]")
    else:
        show(records)
    return code


def train_missing(suite: str, runs: "list[Run]", workers: int | None, out: Path, on: str | None, dry_run: bool) -> int:
    """Train the runs without a result, with their weights kept; the exit code of ``lprime run``."""
    from . import app

    missing = [r for r in runs if not r.result(out)]
    if not missing:
        if dry_run:
            print("all runs have a result; nothing to train")
        return 0
    words = ["run", suite, "--out", str(out), "--keep-weights"]
    for option, values in (
        ("--encoding", (r.encoding for r in missing)),
        ("--task", (r.task for r in missing)),
        ("--seed", (str(r.seed) for r in missing)),
    ):
        words += [word for value in dict.fromkeys(values) for word in (option, value)]
    words += ["--workers", str(workers)] if workers and not on else []
    words += ["--on", on] if on else []
    return app([*words, *["--dry-run"] * dry_run], standalone_mode=False) or 0


def show(records: "list[ProbeRecord]") -> None:
    """A small table of each probe and task, and why numbers are missing."""
    from rich.console import Console
    from rich.table import Table

    from leaderboard.results.probes import probe_frame, summaries

    console = Console()
    for title, frame in summaries(probe_frame(records)):
        wide = frame.shape[1] > frame.shape[0]
        console.print(f"[bold]{title}[/]")
        table = Table("" if wide else "encoding", *(frame.index if wide else frame.columns), box=None)
        for name, row in (frame.T if wide else frame).iterrows():
            table.add_row(name, *("–" if value != value else f"{value:.3g}" for value in row))
        console.print(table)
    for note in sorted({f"{record.encoding}, {record.probe}: {record.note}" for record in records if record.note}):
        console.print(note, markup=False, highlight=False)
