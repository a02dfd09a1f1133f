"""``lprime compare``: compare two encodings."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard import PUBLISHED, published_folder

from .options import Board, Json, OfSuite, Out, full_name, print_json

if TYPE_CHECKING:
    from leaderboard.stats.rows import Board as Rows


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="An encoding with results.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    suite: OfSuite = "small",
    out: Out = Path("runs"),
    published: Annotated[
        bool, typer.Option("--published", help="Prefer published results to your runs, also where you have runs.")
    ] = False,
    board: Board = PUBLISHED,
    as_json: Json = False,
) -> None:
    """Say which of two encodings is better, with the interval of the difference and its p.

    They are yours, published ones, or one of each: an encoding of which you have no runs is read from the published board;
    next to it, yours is marked (local).
    """
    from rich.console import Console

    from leaderboard.render.terminal import comparison, print_comparison
    from leaderboard.results.frame import suite_name

    folder = published_folder(board)
    name, names = suite_name(suite, out, folder), (full_name(a), full_name(b))
    rows, shown = find_pair(name, names, out, folder, published)
    found = comparison(rows, *shown)
    if as_json:
        print_json(found)
    else:
        print_comparison(found, Console())


def find_pair(suite: str, names: tuple[str, str], out: Path, board: Path, published: bool) -> "tuple[Rows, list[str]]":
    """A board with results of both encodings where there are some, and the names of the encodings in it.

    Raises:
        InputError: no results of the suite.
    """
    from leaderboard.render.published import joint_board, local_board
    from leaderboard.results import read_local
    from leaderboard.results.frame import published_suites
    from leaderboard.stats.rows import LOCAL

    if not published and (suite not in published_suites(board) or set(read_local(out, suite)["encoding"]).issuperset(names)):
        return local_board(suite, out), [*names]
    both = joint_board(suite, out, board)
    known, marks = set(both.rows["encoding"]), ("", LOCAL) if published else (LOCAL, "")
    return both, [next((name + mark for mark in marks if name + mark in known), name) for name in names]
