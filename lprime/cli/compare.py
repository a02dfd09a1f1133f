"""``lprime compare``: compare two encodings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard import PUBLISHED

from .completion import complete_encoding
from .options import Board, Json, OfSuite, Out, print_json
from .read_results import full_name, read_grids

if TYPE_CHECKING:
    from leaderboard.data.grid import Grid


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="An encoding with results.", autocompletion=complete_encoding)],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.", autocompletion=complete_encoding)],
    suite: OfSuite = "small",
    out: Out = Path("runs"),
    published: Annotated[
        bool, typer.Option("--published", help="Prefer published results to your runs, also where you have runs.")
    ] = False,
    board: Board = PUBLISHED,
    as_json: Json = False,
) -> None:
    """Compare the results of two encodings.

    They are yours, published ones, or one of each.

    Shows accuracy by length, intervals, cost, and whether the board's test separates the two. An encoding of which you have no
    runs is read from the published board; next to it, yours is marked (local).
    """
    from leaderboard.stats.compare import compare_encodings

    grids, names = find_pair(suite, (full_name(a), full_name(b)), out, board, published)
    comparison = compare_encodings(grids, *names)
    if as_json:
        print_json(comparison.as_dict())
        return
    from rich.console import Console

    from leaderboard.render.compare_text import print_comparison

    print_comparison(comparison, Console())


def find_pair(
    suite: str, names: tuple[str, str], out: Path, board: Path, published: bool
) -> "tuple[list[Grid], tuple[str, str]]":
    """Grids with results of both encodings where there are some, and the names of the encodings in them.

    Raises:
        InputError: no such suite, no results, or a broken file.
    """
    from leaderboard.data.collect import NoResults
    from leaderboard.data.grid import LOCAL
    from leaderboard.data.local_runs import with_local_runs
    from tasks import InputError

    def encodings_of(grids: "list[Grid]") -> set[str]:
        return {encoding for grid in grids for _, encoding in grid.runs}

    def read_published() -> "list[Grid]":
        (found,) = read_grids([suite], board, published=True).values()
        return found

    if published:
        grids = read_published()
        if encodings_of(grids).issuperset(names):
            return grids, names
    try:
        (ours,) = read_grids([suite], out, published=False).values()
    except NoResults as nothing:
        try:
            return read_published(), names
        except InputError as error:
            raise error if published else nothing from None
    local = encodings_of(ours)
    if local.issuperset(names) and not published:
        return ours, names
    try:
        both = with_local_runs(suite, out, board)
    except NoResults:  # nothing is published: the comparison names what is missing
        return (grids if published else ours), names
    theirs = encodings_of(both)

    def shown(name: str) -> str:
        wanted = (name, name + LOCAL) if published or name not in local else (name + LOCAL, name)
        return next((one for one in wanted if one in theirs), name)

    return both, (shown(names[0]), shown(names[1]))
