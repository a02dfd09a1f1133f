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
    from bench.measure.measure import measure_cards, with_catalogue
    from leaderboard.render.publish import render_published
    from leaderboard.results import read_published
    from leaderboard.results.cards import read_cards, write_cards
    from leaderboard.results.chosen import suite_name
    from leaderboard.results.probes import of_runs, publish_probes, read_local
    from leaderboard.results.store import publish as publish_runs
    from tasks import plural

    if suite is not None:
        name, chosen = suite_name(suite, out), [full_name(one) for one in encoding or ()]
        done = publish_runs(name, out, to, chosen)
        print(f"{name}: {plural(done.added, 'run')} added, {done.kept} published before")
        runs = read_published(to)
        own = runs[runs["suite"] == name][["fingerprint", "task", "encoding", "seed", "source_sha256"]]
        probes = of_runs(read_local(out / name), set(own.itertuples(index=False, name=None)))
        if count := publish_probes(name, [one for one in probes if not chosen or one.encoding in chosen], to):
            print(f"{name}: {plural(count, 'probe')} published")
        names, cards = set(runs["encoding"]), read_cards(to)
        for one in sorted(names):
            cards = measure_cards([one], cards, measure)
            write_cards(to, cards)  # one at a time: measuring all takes minutes, and may be interrupted
        write_cards(to, with_catalogue(cards, names))
    changed = render_published(to)
    print(f"{plural(len(changed), 'file')} written under {to}" if changed else f"everything under {to} is up to date")
