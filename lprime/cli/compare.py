"""``lprime compare``: compare two encodings."""

from pathlib import Path
from typing import Annotated

import typer

from leaderboard import PUBLISHED, published_folder

from .options import Board, Json, OfSuite, Out, full_name, print_json


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

    from leaderboard.render.published import joint_board, local_board
    from leaderboard.render.terminal import comparison, print_comparison
    from leaderboard.results.frame import published_suites, read_local, suite_name
    from leaderboard.stats.rows import LOCAL

    folder = published_folder(board)
    name, shown = suite_name(suite, out, folder), [full_name(a), full_name(b)]
    if not published and (name not in published_suites(folder) or {*shown} <= {*read_local(out, name)["encoding"]}):
        rows = local_board(name, out)
    else:
        rows = joint_board(name, out, folder)
        known, marks = set(rows.encodings), ("", LOCAL) if published else (LOCAL, "")
        shown = [next((one + mark for mark in marks if one + mark in known), one) for one in shown]
    found = comparison(rows, *shown)
    if as_json:
        print_json(found)
    else:
        print_comparison(found, Console())
