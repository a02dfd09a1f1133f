"""``lprime probe``: what trained models do inside."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Encodings, Json, Out, Seeds, Tasks, Workers, print_json, try_encodings

if TYPE_CHECKING:
    from bench.runs.progress import Progress
    from bench.runs.run import Run


def probe(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME]... SUITE",
            help="Probes (all by default): position, growth, similarity. The last one is the suite.",
            show_default=False,
        ),
    ],
    encoding: Encodings = None,
    task: Tasks = None,
    seed: Seeds = None,
    workers: Workers = None,
    out: Out = Path("runs"),
    as_json: Json = False,
) -> int:
    """Measure what trained models of a suite's first seed, or of other seeds, do inside; train those that are missing.

    Numbers are files next to the runs' own, probe-<name>.json. `lprime export --probes` writes them as one table. Those that
    exist are not measured again. To train on a cluster: `lprime run SUITE --keep-weights --on FILE`.
    """
    from bench.probe.measure import PROBES, measure_runs
    from bench.runs.run import plan_runs
    from bench.suites.suite import holding, load_suite
    from tasks import InputError, unknown

    *names, suite_name = arguments
    if suite_name in PROBES:
        raise InputError(f"expected lprime probe NAME SUITE: the suite comes last, got {suite_name!r}")
    for name in names:
        if name not in PROBES:
            raise unknown("probe", name, PROBES)
    suite_name, task = holding(suite_name, task or [])
    suite, chosen = load_suite(suite_name), names or [*PROBES]
    runs = plan_runs(suite, try_encodings(encoding or suite.encodings), task, seed or suite.seeds[:1])
    ended = make_runs(runs, out, workers, keep_weights=True)
    records = measure_runs([run for run in runs if run.result(out)], out, chosen)
    if as_json:
        print_json([record.model_dump(mode="json") for record in records])
    else:
        for note in sorted({f"{record.encoding}, {record.probe}: {record.note}" for record in records if record.note}):
            print(note)
        print(f"{len(records):,} records of probes under {out / suite.name}; `lprime export --probes` writes their numbers")
    return int(bool(ended.failed or ended.locked))


def make_runs(runs: "list[Run]", out: Path, workers: int | None, keep_weights: bool) -> "Progress":
    """Train and test the runs without a result; returns how they ended."""
    from bench.runs.pool import local_pool
    from bench.runs.progress import Progress, say

    todo = [run for run in runs if not run.result(out)]
    if not todo:
        return Progress([])
    say(f"{len(todo)} runs to do, results under {out / todo[0].suite.name}")
    pool = local_pool(workers, "auto", keep_weights={run.encoding for run in todo} if keep_weights else None)
    with (progress := Progress(todo)):
        pool.execute(todo, out, progress.on_event)
    return progress
