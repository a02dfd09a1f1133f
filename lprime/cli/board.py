"""``lprime board``: the leaderboard of a suite, from results."""

from pathlib import Path
from typing import Annotated

import typer

from leaderboard import PUBLISHED, published_folder

from .options import Board, Json, Out, print_json


def board(
    suite: Annotated[str | None, typer.Argument(metavar="SUITE", help="One suite [default: all with results].")] = None,
    out: Out = Path("runs"),
    check: Annotated[bool, typer.Option("--check", help="Only check that the published board matches its results.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="DIR", help="Write DIR/index.html instead: an interactive page.")
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="The published board, with your runs marked (local); --html leaves them out.")
    ] = False,
    to: Board = PUBLISHED,
    as_json: Json = False,
) -> None:
    """Print the board of a suite, and below it the verdict; or write it as an interactive page, which works offline."""
    if check:
        from leaderboard.render.publish import check_rendered

        return print(check_rendered(to))
    from rich.console import Console

    from bench.runs.run import Run
    from bench.suites.suite import is_shipped, load_suite, suite_command
    from leaderboard.render.published import Published, joint_board, local_board
    from leaderboard.render.terminal import board_dict, print_board
    from leaderboard.results.frame import known_suites, suite_name
    from tasks import InputError

    folder = published_folder(to)
    name = suite_name(suite, out, folder if published else None) if suite else None
    if published:
        own = out if html is None else None
        boards = [joint_board(name, own, folder)] if name else list(Published(folder).boards.values())
    elif names := [name] if name else known_suites(out, None):
        boards = [local_board(one, out) for one in names]
        if suite and (is_shipped(suite) or suite != name):
            loaded, kinds = load_suite(suite), boards[0].all_runs.drop_duplicates(["task", "train_length"])
            for task, encoding, seed, rate in kinds[["task", "encoding", "seed", "learning_rate"]].itertuples(index=False):
                found = Run(loaded, task, encoding, seed, rate if rate > 0 else None).standing(out)
                if found.state == "unreadable":
                    typer.echo(f"lprime: caution: {found.reason}", err=True)
                    break  # of this task and length, runs with other examples than this one's were skipped
    else:
        raise InputError(f"no results under {out}; `lprime run SUITE` writes them, or use --published")
    if html is not None:
        from leaderboard.render.web import write_page

        print(f"written to {write_page(boards, html, folder if published else None)}")
    elif as_json:
        print_json([board_dict(one) for one in boards])
    else:
        for one in boards:
            print_board(one, suite_command("status", one.suite, out=out), Console())
