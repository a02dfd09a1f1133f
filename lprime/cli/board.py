"""``lprime board``, ``compare`` and ``publish``: the leaderboard of a suite, two of its rows, and its published files."""

from pathlib import Path
from typing import Annotated

import typer

from leaderboard import PUBLISHED, published_folder

from .options import Board, Json, OfSuite, Out, full_name, print_json, suite_command


def board(
    suite: Annotated[str | None, typer.Argument(metavar="SUITE", help="One suite [default: all with results].")] = None,
    out: Out = Path("runs"),
    check: Annotated[bool, typer.Option("--check", help="Only check that the published board matches its results.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="DIR", help="Write DIR/index.html instead: an interactive page.")
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="The published board; with SUITE and no --html also your runs, as (local).")
    ] = False,
    to: Board = PUBLISHED,
    as_json: Json = False,
) -> None:
    """Print the board of a suite, and below it the verdict; or write it as an interactive page, which works offline."""
    if as_json + check + bool(html) > 1:
        raise typer.BadParameter("expected one of --check, --html and --json")
    if check:
        from leaderboard.render.publish import check_rendered

        return print(check_rendered(to))
    from rich.console import Console

    from bench.runs.run import Run
    from bench.suites.suite import load_suite, shipped
    from leaderboard.render.published import Published, joint_board, local_board
    from leaderboard.render.terminal import board_dict, print_board
    from leaderboard.results.frame import known_suites, read_local, suite_name
    from tasks import InputError

    folder, published = published_folder(to), published or to != PUBLISHED
    name = suite_name(suite, out, folder if published else None) if suite else None
    if published:
        own = out if html is None else None
        boards = [joint_board(name, own, folder)] if name else list(Published(folder).boards.values())
    elif names := [name] if name else [one for one in known_suites(out, None) if len(read_local(out, one))]:
        boards = [local_board(one, out) for one in names]
        if suite and (suite in shipped() or suite != name):
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

        print(f"written to {write_page(boards, html)}")
    elif as_json:
        print_json([board_dict(one) for one in boards])
    else:
        for one in boards:
            print_board(one, suite_command("status", suite or one.suite, out), Console())


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


def publish(
    suite: Annotated[
        str | None, typer.Argument(metavar="SUITE", help="The suite to publish; without it, only render again.")
    ] = None,
    out: Out = Path("runs"),
    to: Board = PUBLISHED,
    encoding: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these encodings (repeatable).")] = None,
    measure: Annotated[bool, typer.Option(help="Measure costs of encodings that lack them (seconds each).")] = True,
) -> None:
    """Publish a suite's finished runs, and render the board."""
    from bench.measure import Card
    from bench.measure.measure import new_card
    from bench.result import read_records, write_records
    from leaderboard.render.publish import render_published
    from leaderboard.results.file_names import RESULTS, SUFFIX
    from leaderboard.results.frame import suite_name
    from leaderboard.results.store import CARDS
    from leaderboard.results.store import publish as publish_runs
    from tasks import InputError, plural

    if suite is None and encoding:
        raise InputError(f"expected the SUITE of {encoding[0]} too")
    if suite is not None:
        name, chosen = suite_name(suite, out), [full_name(one) for one in encoding or ()]
        added, before = publish_runs(name, out, to, chosen)
        print(f"{name}: {plural(added, 'run')} added, {before} published before")
        cards = read_records(to / RESULTS / CARDS, Card)
        files = (to / RESULTS).glob(f"*/[!.]*{SUFFIX}") if measure else ()
        for one in sorted({path.name.removesuffix(SUFFIX) for path in files}):
            if card := new_card(one, cards.get(one)):
                cards[one] = card
                write_records(to / RESULTS / CARDS, cards)  # measuring all takes minutes, and may be interrupted
    changed = render_published(to)
    print(f"{plural(len(changed), 'file')} written under {to}" if changed else f"everything under {to} is up to date")
