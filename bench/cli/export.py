"""``lprime export``: all results as one tidy table."""

from pathlib import Path
from typing import Annotated

import typer

from .results import Out, Published, read_grids


def register(app: typer.Typer) -> None:
    app.command()(export)


def export(
    to: Annotated[Path, typer.Option("--to", metavar="PATH", help="The file, or for a dataset the folder, to write.")],
    suite: Annotated[
        list[str] | None, typer.Option(metavar="SUITE", help="Only these suites (repeatable) [default: all that have results].")
    ] = None,
    out: Out = None,
    published: Published = False,
    form: Annotated[
        str, typer.Option("--format", metavar="csv|parquet|dataset", help="A dataset is for datasets.load_from_disk.")
    ] = "csv",
    force: Annotated[bool, typer.Option("--force", help="Replace what was exported to that place before.")] = False,
) -> None:
    """Write all results as one tidy table: a row for each run and test length, with all that is known of the run."""
    from leaderboard.export import check_place, write

    check_place(form, to, force)
    grids = [grid for versions in read_grids(suite, out, published).values() for grid in versions]
    runs = [run for grid in grids for run in grid.all_runs]
    rows = write(runs, form, to, force)
    names = ", ".join(dict.fromkeys(grid.name for grid in grids))
    print(f"{rows:,} rows of {len(runs):,} {'run' if len(runs) == 1 else 'runs'} ({names}) written to {to}")
    if failed := sum(len(grid.failures) for grid in grids):
        print(f"{failed:,} failed {'run has' if failed == 1 else 'runs have'} no result and so no rows")
