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
    """Publish a suite's finished runs and probes, and render the board."""
    from bench.measure.card import Card
    from bench.measure.measure import new_card
    from bench.result import read_records, write_records
    from leaderboard.render.publish import render_published
    from leaderboard.results.file_names import RESULTS
    from leaderboard.results.frame import read_published, suite_name
    from leaderboard.results.probes import of_runs, publish_probes, read_local
    from leaderboard.results.store import CARDS
    from leaderboard.results.store import publish as publish_runs
    from tasks import plural

    if suite is not None:
        name, chosen = suite_name(suite, out), [full_name(one) for one in encoding or ()]
        added, before = publish_runs(name, out, to, chosen)
        print(f"{name}: {plural(added, 'run')} added, {before} published before")
        runs = read_published(to)
        own = runs[runs["suite"] == name][["fingerprint", "task", "encoding", "seed", "source_sha256"]]
        probes = of_runs(read_local(out / name), set(own.itertuples(index=False, name=None)))
        if count := publish_probes(name, [one for one in probes if not chosen or one.encoding in chosen], to):
            print(f"{name}: {plural(count, 'probe')} published")
        cards = read_records(to / RESULTS / CARDS, Card)
        for one in sorted(set(runs["encoding"])) if measure else ():
            if card := new_card(one, cards.get(one)):
                cards[one] = card
                write_records(to / RESULTS / CARDS, cards)  # measuring all takes minutes, and may be interrupted
    changed = render_published(to)
    print(f"{plural(len(changed), 'file')} written under {to}" if changed else f"everything under {to} is up to date")
