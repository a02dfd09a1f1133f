"""``lprime publish``: finished runs into the published board."""

from pathlib import Path
from typing import Annotated

import typer

To = Annotated[Path, typer.Option("--to", metavar="DIR", help="The published board: results, pages and pictures.")]


def register(app: typer.Typer) -> None:
    app.command()(publish)


def publish(
    suite: Annotated[
        str | None, typer.Argument(metavar="[SUITE]", help="Whose runs to publish; without, only render what is published.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where results live.")] = Path("runs"),
    to: To = Path("leaderboard"),
    encoding: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these encodings (repeatable).")] = None,
    measure: Annotated[
        bool, typer.Option(help="Measure properties and costs of encodings that lack them (seconds each).")
    ] = True,
) -> None:
    """Add a suite's finished runs to the published results, and render board, pages and pictures from them."""
    from leaderboard.cards import measure_cards, read_cards, with_catalogue, write_cards
    from leaderboard.published import render
    from leaderboard.store import publish as fold
    from leaderboard.store import read_store

    from .results import filed_under

    if suite is not None:
        done = fold(suite, out, to, encoding and [filed_under(name) for name in encoding])
        failures = f", {done.failures} without result because they failed" if done.failures else ""
        print(f"{done.suite}: {done.added} runs added, {done.kept} were there already{failures}")
        names = {run.encoding.name for runs in read_store(to).values() for run in runs}
        cards = read_cards(to)
        for name in sorted(names):
            cards = measure_cards([name], cards, measure)
            write_cards(to, cards)  # each at once: measuring all takes minutes, and may be stopped
        write_cards(to, with_catalogue(cards, names))
    changed = render(to)
    print(f"{len(changed)} files written under {to}" if changed else f"everything under {to} is as it was")
