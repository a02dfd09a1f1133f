"""``lprime export``: all results as one tidy table; ``lprime data``: a task's examples as a Hugging Face dataset."""

from pathlib import Path
from typing import Annotated

import typer

from leaderboard import PUBLISHED, published_folder

from .options import SUITE_HELP, Board, OfSuite, Out


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
    from leaderboard.export import refuse_path, tidy, write_results_hub, write_table
    from leaderboard.results.frame import read_runs, suite_name
    from tasks import InputError, plural

    place = to or hub
    if place is None or (hub and (to or probes)):
        raise InputError("expected --to FILE, or --hub DIR for a dataset of results")
    if to:
        refuse_path(to, force)
    if probes:
        return export_probes(suite, board if published else out, published, place, force)
    runs_in, board_in = (None, published_folder(board)) if published else (out, None)
    runs = read_runs([suite_name(one, runs_in, board_in) for one in suite] if suite else None, runs_in, board_in)
    table = tidy(runs)
    rows = write_results_hub(table, place) if hub else write_table(table, place, force)
    print(f"{rows:,} rows of {plural(len(runs), 'run')} ({', '.join(runs['suite'].unique())}) written to {place}")


def export_probes(suites: list[str] | None, out: Path, published: bool, to: Path, force: bool) -> None:
    """Write the numbers of all probes.

    Raises:
        InputError: there are none, or none of a given suite.
    """
    from leaderboard.export import write_table
    from leaderboard.results.probes import probe_frame, read_local, read_published
    from tasks import InputError, unknown

    if published:
        found = read_published(published_folder(out))
    else:
        found = {folder.name: own for folder in sorted(out.glob("*")) if folder.is_dir() and (own := read_local(folder))}
    if not found:
        raise InputError(f"no probes under {out}; `lprime probe SUITE` measures them, and published ones are in a checkout")
    for name in suites or ():
        if name not in found:
            raise unknown("suite with probes", name, found)
    records = [record for name in dict.fromkeys(suites or found) for record in found[name]]
    rows = write_table(probe_frame(records), to, force)
    print(f"{rows:,} rows of {len(records):,} probes written to {to}")


def data(
    task: Annotated[str, typer.Argument(metavar="TASK", help="One of the suite's tasks, or a file.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="A new folder for the dataset.")],
    suite: OfSuite = "small",
    train_examples: Annotated[int, typer.Option(metavar="N", help="Training examples to write.")] = 10_000,
    seed: Annotated[int, typer.Option(metavar="N", help="Training seed.")] = 0,
) -> None:
    """Write a task's examples as a Hugging Face dataset.

    They are the test examples of runs, and the first training examples of a seed; read them with datasets.load_dataset.
    """
    from bench.dataset import export
    from bench.runs.run import check_seed
    from bench.suites.suite import holding, load_suite

    check_seed(seed)
    suite, (task,) = holding(suite, [task])
    loaded = load_suite(suite)
    export(loaded, task, to, train_examples, seed)
    splits = len(loaded.test_lengths(task))
    print(f"{task} of suite {loaded.name}: {train_examples} training examples and {splits} test splits in {to}")
