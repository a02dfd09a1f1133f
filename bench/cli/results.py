"""The results a command reads: of runs here, or those that are published."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from leaderboard.grid import Grid

Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Where results live [default: runs; with --published, leaderboard].", show_default=False
    ),
]
Published = Annotated[bool, typer.Option("--published", help="Read the published results instead of those of runs.")]


def read_grids(suites: Iterable[str] | None, out: Path | None, published: bool) -> "dict[str, list[Grid]]":
    """Suite → its grids, newest version first; of all suites that have results if none are asked for.

    Raises:
        InputError: no such suite, no results, a broken file, or results that contradict each other.
    """
    if not published:
        from leaderboard.collect import NoResults, collect

        from .board import suites_with_results

        out = out or Path("runs")
        try:
            return {name: collect(name, out) for name in suites or suites_with_results(out)}
        except NoResults as error:
            raise NoResults(f"{error}, or ask for --published ones") from None

    from leaderboard.cards import priced, read_cards
    from leaderboard.store import grids
    from tasks import InputError, unknown

    out = out or Path("leaderboard")
    found = priced(grids(out), read_cards(out))
    if not found:
        raise InputError(
            f"nothing is published under {out}; expected results/<suite>/<encoding>.jsonl as lprime publish writes them"
        )
    for name in suites or ():
        if name not in found:
            raise unknown("published suite", name, found)
    return {name: found[name] for name in suites or found}


def filed_under(name: str) -> str:
    """The name that an encoding's results have, where it is given by its file or with its settings; a plain name is its own."""
    from bench.references import has_reference

    if not ("(" in name or has_reference(name)):
        return name  # looking it up would load torch
    from bench import encodings

    return encodings.get(name).info.name
