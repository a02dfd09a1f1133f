"""``lprime export``: all results as one tidy table."""

from pathlib import Path
from typing import Annotated

import typer

from leaderboard import PUBLISHED, published_folder

from .completion import complete_suite
from .options import SUITE_HELP, Board, Out, Published
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
    board: Board = PUBLISHED,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="csv|json|parquet|dataset",
            help="Format [default: by the ending of --to]; dataset: a folder for datasets.load_from_disk.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier export.")] = False,
    probes: Annotated[bool, typer.Option("--probes", help="Numbers of lprime probe instead: one row per number.")] = False,
) -> None:
    """Write all results as one tidy table.

    It has one row per run and test length.
    """
    from leaderboard.render.export import format_of, refuse_occupied, results_table, write_table

    form = format_of(to, form)
    refuse_occupied(form, to, force)
    if probes:
        return export_probes(suite, board if published else out, published, form, to, force)
    grids = [grid for versions in read_grids(suite, board if published else out, published).values() for grid in versions]
    runs = [run for grid in grids for run in grid.all_runs]
    rows = write_table(results_table(runs), form, to, force)
    names = ", ".join(dict.fromkeys(grid.name for grid in grids))
    print(f"{rows:,} rows of {len(runs):,} {'run' if len(runs) == 1 else 'runs'} ({names}) written to {to}")
    if failed := sum(len(grid.failures) for grid in grids):
        print(f"{failed:,} failed {'run has' if failed == 1 else 'runs have'} no result, and so no rows")


def export_probes(suites: list[str] | None, out: Path, published: bool, form: str, to: Path, force: bool) -> None:
    """Write the numbers of all probes.

    Raises:
        InputError: there are none, or none of a given suite.
    """
    import pyarrow as pa  # type: ignore[import-untyped]

    from leaderboard.render.export import write_table
    from leaderboard.results.probes import probe_frame, read_local, read_published
    from lprime.api.tables import suite_name
    from tasks import InputError, unknown

    if published:
        out = published_folder(out)
        found, advice = read_published(out), "published probes are only in a checkout"
    else:
        found = {folder.name: own for folder in sorted(out.glob("*")) if folder.is_dir() and (own := read_local(folder))}
        advice = "`lprime probe SUITE` measures them"
    if not found:
        raise InputError(f"no probes under {out}; {advice}")
    names = list(dict.fromkeys(suite_name(name) for name in suites or found))
    for name in names:
        if name not in found:
            raise unknown("suite with probes", name, found)
    records = [record for name in names for record in found[name]]
    rows = write_table(pa.Table.from_pandas(probe_frame(records), preserve_index=False), form, to, force)
    print(f"{rows:,} rows of {len(records):,} probes written to {to}")
