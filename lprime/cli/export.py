"""``lprime export``: all results as one tidy table."""

from pathlib import Path
from typing import Annotated

import typer

from .options import Published, RunsOrPublished
from .read_results import read_grids


def export(
    to: Annotated[Path, typer.Option("--to", metavar="PATH", help="The file to write (for a dataset, the folder).")],
    suite: Annotated[
        list[str] | None, typer.Option(metavar="SUITE", help="Only these suites (repeatable) [default: all with results].")
    ] = None,
    out: RunsOrPublished = None,
    published: Published = False,
    form: Annotated[
        str, typer.Option("--format", metavar="csv|parquet|dataset", help="dataset: for datasets.load_from_disk.")
    ] = "csv",
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export.")] = False,
) -> None:
    """Write all results as one tidy table.

    It has one row per run and test length.
    """
    from leaderboard.data.export import refuse_occupied, write_export

    refuse_occupied(form, to, force)
    grids = [grid for versions in read_grids(suite, out, published).values() for grid in versions]
    runs = [run for grid in grids for run in grid.all_runs]
    rows = write_export(runs, form, to, force)
    names = ", ".join(dict.fromkeys(grid.name for grid in grids))
    print(f"{rows:,} rows of {len(runs):,} {'run' if len(runs) == 1 else 'runs'} ({names}) written to {to}")
    if failed := sum(len(grid.failures) for grid in grids):
        print(f"{failed:,} failed {'run has' if failed == 1 else 'runs have'} no result, and so no rows")
