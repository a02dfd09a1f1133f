"""``lprime board``: render the leaderboard from results."""

from pathlib import Path
from typing import Annotated

import typer

from leaderboard import PUBLISHED, published_folder

from .options import Board, Json, Out, print_json
from .read_results import read_grids


def board(
    suite: Annotated[str | None, typer.Argument(metavar="SUITE", help="One suite [default: all with ranked results].")] = None,
    out: Out = Path("runs"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; check that the published board matches its results.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="DIR", help="Write DIR/index.html instead: an interactive page."),
    ] = None,
    published: Annotated[
        bool,
        typer.Option(
            "--published", help="Add your runs, marked (local), to the published board; with --html, published results only."
        ),
    ] = False,
    to: Board = PUBLISHED,
    as_json: Json = False,
) -> None:
    """Render the board of a suite as markdown with figures, and print its first table and the answer; or all as one page.

    The HTML page works offline.
    """
    from tasks import InputError

    if as_json and (check or html):
        raise InputError(f"expected --json or {'--check' if check else '--html'}, got both")
    if html is not None:
        if check:
            raise InputError("expected --check or --html, got both")
        from leaderboard.data.cards import read_cards
        from leaderboard.data.collect import read_results
        from leaderboard.data.conditions import attach_conditions, with_conditions
        from leaderboard.data.probes import with_probes
        from leaderboard.data.store import RESULTS, read_runs
        from leaderboard.render.html_page import write_html_page

        grids = read_grids([suite] if suite else None, to if published else out, published)
        grids = with_probes(grids, published_folder(to)) if published else grids
        place, read = (published_folder(to) / RESULTS, read_runs) if published else (out, read_results)
        if suite:
            shown = {name: [with_conditions(newest, place, read), *older] for name, (newest, *older) in grids.items()}
        else:
            shown = attach_conditions(grids)
        print(f"written to {write_html_page(shown, html, read_cards(published_folder(to)) if published else {})}")
        return
    if check:
        if published:
            raise InputError("expected --check or --published, got both")
        if suite:
            raise InputError(f"--check compares the whole published board; expected it without a suite, got {suite!r}")
        from leaderboard.render.publish import check_rendered

        print(check_rendered(to))
        return
    from rich.console import Console

    from bench.suites.suite import suite_command
    from leaderboard.data.conditions import suites_with_boards
    from leaderboard.render.board import write_board
    from leaderboard.render.board_text import board_dict, print_board

    names = [suite] if suite else suites_with_boards(out)
    boards = [write_board(name, out, published_folder(to) if published else None) for name in names]
    if as_json:
        return print_json([board_dict(*one) for one in boards])
    for name, (grid, pages) in zip(names, boards, strict=True):
        print_board(grid, pages, suite_command("status", name, out=out), Console())
