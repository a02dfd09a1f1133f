"""``lprime export``: all results as one tidy table; ``lprime data``: a task's examples as a Hugging Face dataset."""

from pathlib import Path
from typing import Annotated

import typer

from leaderboard import PUBLISHED, published_folder

from .options import SUITE_HELP, Board, Out


def export(
    to: Annotated[
        Path | None, typer.Option("--to", metavar="PATH", help="The file to write, by its ending: .csv, .json or .parquet.")
    ] = None,
    hub: Annotated[Path | None, typer.Option("--hub", metavar="DIR", help="Or a new folder: a Hugging Face dataset.")] = None,
    suite: Annotated[
        list[str] | None,
        typer.Option(metavar="SUITE", help=f"Only these suites (repeatable) [default: all with results]. {SUITE_HELP}"),
    ] = None,
    out: Out = Path("runs"),
    published: Annotated[bool, typer.Option("--published", help="Read published results instead of your runs.")] = False,
    board: Board = PUBLISHED,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export.")] = False,
    probes: Annotated[bool, typer.Option("--probes", help="Numbers of lprime probe instead: one row per number.")] = False,
) -> None:
    """Write all results as one tidy table, with one row per run and test length."""
    from leaderboard.export import probe_frame, read_probes, refuse_path, tidy, write_results_hub, write_table
    from leaderboard.results.frame import read_runs, suite_name
    from tasks import InputError, plural

    place = to or hub
    if place is None or (hub and (to or probes or force)):
        raise InputError("expected --to FILE, or --hub DIR for a new dataset of results, without --force or --probes")
    if to:
        refuse_path(to, force)
    published = published or board != PUBLISHED
    if probes:
        if published:
            raise typer.BadParameter("--probes are of your runs; expected no --published")
        records = read_probes(out, [suite_name(one, out) for one in suite or ()])
        table, what = probe_frame(records), plural(len(records), "probe")
    else:
        runs_in, board_in = (None, published_folder(board)) if published else (out, None)
        runs = read_runs([suite_name(one, runs_in, board_in) for one in suite] if suite else None, runs_in, board_in)
        table, what = tidy(runs), f"{plural(len(runs), 'run')} ({', '.join(runs['suite'].unique())})"
    if hub:
        write_results_hub(table, hub)
    else:
        write_table(table, place)
    print(f"{len(table):,} rows of {what} written to {place}")


def data(
    task: Annotated[str, typer.Argument(metavar="TASK", help="One of the suite's tasks, or a file.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new folder for the dataset.")],
    suite: Annotated[
        str | None, typer.Option(metavar="SUITE", help=f"{SUITE_HELP} [default: the one of the task's own name, or small]")
    ] = None,
    train_examples: Annotated[int, typer.Option(metavar="N", help="Training examples to write.")] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", help="Training seed.")] = 0,
) -> None:
    """Write a task's examples as a Hugging Face dataset.

    They are test examples, and the first training examples of a seed, at the suite's own lengths. Read them with
    datasets.load_dataset.
    """
    from bench.dataset import export
    from bench.runs.run import check_seed
    from bench.suites.suite import holding, load_suite, shipped

    check_seed(seed)
    suite, (task,) = holding(suite or (task if task in shipped() else "small"), [task])
    loaded = load_suite(suite)
    export(loaded, task, to, train_examples, seed)
    splits = len(loaded.test_lengths(task))
    print(f"{task} of suite {loaded.name}: {train_examples} training examples and {splits} test splits in {to}")
