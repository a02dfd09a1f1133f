"""``lprime compare``: compare two encodings."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard import PUBLISHED, published_folder

from .completion import complete_encoding
from .options import Board, Json, OfSuite, Out, print_json
from .read_results import damage_noted, full_name

if TYPE_CHECKING:
    from leaderboard.stats.rows import Board as Rows


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
) -> int:
    """Say which of two encodings is better, with the interval of the difference and its p.

    They are yours, published ones, or one of each: an encoding of which you have no runs is read from the published board;
    next to it, yours is marked (local). Exit code 1: a damaged result was skipped.
    """
    from leaderboard.render.terminal import comparison, print_comparison
    from leaderboard.results.chosen import suite_name

    folder = published_folder(board)
    name, names = suite_name(suite, out, folder), (full_name(a), full_name(b))
    with damage_noted() as damage:
        rows, shown = find_pair(name, names, out, folder, published)
    refuse_without_results(rows, shown)
    found = comparison(rows, *shown)
    if as_json:
        print_json(found)
    else:
        from rich.console import Console

        print_comparison(found, Console())
    return int(bool(damage))


def find_pair(suite: str, names: tuple[str, str], out: Path, board: Path, published: bool) -> "tuple[Rows, tuple[str, str]]":
    """A board with results of both encodings where there are some, and the names of the encodings in it.

    Raises:
        InputError: no results of the suite.
    """
    from leaderboard.render.published import build_board, joint_board, local_board
    from leaderboard.results import read_local
    from leaderboard.results.chosen import nothing_published, published_suites
    from leaderboard.stats.rows import LOCAL

    if suite not in (stored := published_suites(board)):
        if published and not stored:
            raise nothing_published(board)
        return local_board(suite, out), names
    local = read_local(out, suite)
    if not published and set(local["encoding"]).issuperset(names):
        return build_board(local, None), names
    both = joint_board(suite, out, board)
    theirs = set(both.rows["encoding"])

    def shown(name: str) -> str:
        wanted = (name, name + LOCAL) if published else (name + LOCAL, name)
        return next((one for one in wanted if one in theirs), name)

    return both, (shown(names[0]), shown(names[1]))


def refuse_without_results(board: "Rows", names: tuple[str, str]) -> None:
    """Refuse an encoding that exists and has no results, and say how to get some.

    Raises:
        InputError: there is one.
    """
    from bench.suites.suite import suite_command
    from leaderboard.results.facts import facts
    from tasks import InputError

    for name in names:
        known = name if name in facts() else f"{name}.py" if os.path.isfile(f"{name}.py") else ""
        if known and name not in set(board.rows["encoding"]):
            command = suite_command("run", board.suite, "--encoding", known)
            raise InputError(f"{name!r} has no results on suite {board.suite}; run `{command}` first")
