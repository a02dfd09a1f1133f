"""``lprime export``: all results as one tidy table."""

from pathlib import Path
from typing import Annotated

import typer

from leaderboard import PUBLISHED

from .completion import complete_suite
from .options import SUITE_HELP, Out, Published, To
from .read_results import read_grids


def export(
    to: Annotated[
        Path, typer.Option("--to", metavar="PATH", help="The file to write, by its ending: .csv, .json or .parquet.")
    ],
    suite: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SUITE",
            help=f"Only these suites (repeatable) [default: all with results]. {SUITE_HELP}",
            autocompletion=complete_suite,
        ),
    ] = None,
    out: Out = Path("runs"),
    published: Published = False,
    board: To = PUBLISHED,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="csv|json|parquet|dataset",
            help="Format [default: by the ending of --to]; dataset: a folder for datasets.load_from_disk.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export.")] = False,
) -> None:
    """Write all results as one tidy table.

    It has one row per run and test length.
    """
    from leaderboard.data.export import format_of, refuse_occupied, write_export

    form = format_of(to, form)
    refuse_occupied(form, to, force)
    grids = [grid for versions in read_grids(suite, board if published else out, published).values() for grid in versions]
    runs = [run for grid in grids for run in grid.all_runs]
    rows = write_export(runs, form, to, force)
    names = ", ".join(dict.fromkeys(grid.name for grid in grids))
    print(f"{rows:,} rows of {len(runs):,} {'run' if len(runs) == 1 else 'runs'} ({names}) written to {to}")
    if failed := sum(len(grid.failures) for grid in grids):
        print(f"{failed:,} failed {'run has' if failed == 1 else 'runs have'} no result, and so no rows")
