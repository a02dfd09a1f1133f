"""``lprime publish``: add finished runs to the published board."""

from pathlib import Path
from typing import Annotated

import typer

from leaderboard import PUBLISHED

from .options import Out, To, Vary
from .read_results import full_name


def publish(
    suite: Annotated[
        str | None, typer.Argument(metavar="SUITE", help="The suite to publish; without it, only render again.")
    ] = None,
    out: Out = Path("runs"),
    to: To = PUBLISHED,
    encoding: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these encodings (repeatable).")] = None,
    vary: Vary = False,
    measure: Annotated[
        bool, typer.Option(help="Measure properties and costs of encodings that lack them (seconds each).")
    ] = True,
) -> None:
    """Publish a suite's finished runs, and render the board."""
    from bench.measure.measure_card import measure_cards, with_catalogue
    from bench.suites.suite import Suite, load_suites
    from leaderboard.data.cards import read_cards, write_cards
    from leaderboard.data.collect import read_results
    from leaderboard.data.store import read_store
    from leaderboard.render.publish import render_published
    from tasks import InputError, plural

    if suite is not None:
        asked = [full_name(name) for name in encoding or ()]
        found: list[tuple[Suite | str, list[str]]] = [] if vary else [(suite, asked)]
        for one in load_suites(suite, vary) if vary else ():
            have = {r.encoding.name for r in read_results(out / one.name)}
            found += [(one, own)] if (own := [name for name in asked or sorted(have) if name in have]) else []
        if not found:
            raise InputError(f"no results of a condition of suite {suite} under {out}; run `lprime run {suite} --vary` first")
        for chosen, own in found:
            publish_suite(chosen, out, to, own)
        names = {run.encoding.name for runs in read_store(to).values() for run in runs}
        cards = read_cards(to)
        for name in sorted(names):
            cards = measure_cards([name], cards, measure)
            write_cards(to, cards)  # one at a time: measuring all takes minutes, and may be interrupted
        write_cards(to, with_catalogue(cards, names))
    changed = render_published(to)
    print(f"{plural(len(changed), 'file')} written under {to}" if changed else f"everything under {to} is up to date")


def publish_suite(suite_or_name, out: Path, to: Path, encodings: list[str] | None) -> None:
    """Publish one suite's runs and its probes."""
    from bench.suites.suite import Suite
    from leaderboard.data.collect import find_suite
    from leaderboard.data.probes import publish_probes
    from leaderboard.data.store import publish_runs
    from leaderboard.submission.claims import submitted_results
    from tasks import plural

    suite = suite_or_name if isinstance(suite_or_name, Suite) else find_suite(suite_or_name, out)
    claims = submitted_results(suite, to, encodings) if suite else []
    done = publish_runs(suite_or_name, out, to, encodings, claims)
    more = f", {done.failures} failed without a result" if done.failures else ""
    more += f", {done.unverified} unverified" if done.unverified else ""
    print(f"{done.suite}: {plural(done.added, 'run')} added, {done.kept} published before{more}")
    if suite and (count := publish_probes(suite, out, to, encodings)):
        print(f"{suite.name}: {plural(count, 'probe')} published")
