"""``lprime publish``: add finished runs to the published board."""

from pathlib import Path
from typing import Annotated

import typer

from leaderboard import PUBLISHED

from .options import Board, Out, full_name


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
    from leaderboard.results.file_names import RESULTS
    from leaderboard.results.frame import read_published, suite_name
    from leaderboard.results.store import CARDS
    from leaderboard.results.store import publish as publish_runs
    from tasks import plural

    if suite is not None:
        name, chosen = suite_name(suite, out), [full_name(one) for one in encoding or ()]
        added, before = publish_runs(name, out, to, chosen)
        print(f"{name}: {plural(added, 'run')} added, {before} published before")
        cards = read_records(to / RESULTS / CARDS, Card)
        for one in sorted(set(read_published(to)["encoding"])) if measure else ():
            if card := new_card(one, cards.get(one)):
                cards[one] = card
                write_records(to / RESULTS / CARDS, cards)  # measuring all takes minutes, and may be interrupted
    changed = render_published(to)
    print(f"{plural(len(changed), 'file')} written under {to}" if changed else f"everything under {to} is up to date")
