"""``lprime publish``: add finished runs to the published board."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from leaderboard import PUBLISHED

from .options import Board, Out, Vary
from .read_results import full_name

if TYPE_CHECKING:
    from bench.suites.suite import Suite


def publish(
    suite: Annotated[
        str | None, typer.Argument(metavar="SUITE", help="The suite to publish; without it, only render again.")
    ] = None,
    out: Out = Path("runs"),
    to: Board = PUBLISHED,
    encoding: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these encodings (repeatable).")] = None,
    vary: Vary = False,
    measure: Annotated[
        bool, typer.Option(help="Measure properties and costs of encodings that lack them (seconds each).")
    ] = True,
) -> None:
    """Publish a suite's finished runs, and render the board."""
    from bench.measure.measure_card import measure_cards, with_catalogue
    from leaderboard.data.cards import read_cards, write_cards
    from leaderboard.data.store import read_store
    from leaderboard.render.publish import render_published
    from tasks import InputError, plural

    if suite is None and (vary or encoding):
        option = "--vary" if vary else "--encoding"
        raise InputError(f"{option} needs a suite; expected lprime publish SUITE {option}")
    if suite is not None:
        asked = [full_name(name) for name in encoding or ()]
        for chosen, own in conditions_with_results(suite, out, to, asked) if vary else [(suite, asked)]:
            publish_suite(chosen, out, to, own)
        names = {run.encoding.name for runs in read_store(to).values() for run in runs}
        cards = read_cards(to)
        for name in sorted(names):
            cards = measure_cards([name], cards, measure)
            write_cards(to, cards)  # one at a time: measuring all takes minutes, and may be interrupted
        write_cards(to, with_catalogue(cards, names))
    changed = render_published(to)
    print(f"{plural(len(changed), 'file')} written under {to}" if changed else f"everything under {to} is up to date")


def conditions_with_results(suite: str, out: Path, to: Path, asked: list[str]) -> "list[tuple[Suite, list[str]]]":
    """The conditions of a suite that have results, each with the encodings to publish: those asked for, or all.

    Those that lack runs of a condition are left out, because some of the runs must not stand for all.

    Raises:
        InputError: no condition has results, or none has any of an encoding asked for.
    """
    from bench.runs.run import plan_runs
    from bench.suites.suite import load_suites, suite_command
    from leaderboard.data.collect import read_results
    from leaderboard.data.store import read_store
    from tasks import InputError, unknown

    found = [(one, {run.encoding.name for run in read_results(out / one.name)}) for one in load_suites(suite, vary=True)]
    known = sorted({name for _, names in found for name in names})
    if not known:
        command = suite_command("run", suite, "--vary", out=out)
        raise InputError(f"no results of a condition of suite {suite} under {out}; run `{command}` first")
    for name in asked:
        if name not in known:
            raise unknown(f"encoding with results of a condition of suite {suite}", name, known)
    stored, chosen = read_store(to), []
    for one, names in found:
        results = [*read_results(out / one.name), *stored.get(one.name, ())]
        there = {(run.task, run.encoding.name, run.seed) for run in results if run.fingerprint == one.fingerprint}
        complete = []
        for name in sorted(names.intersection(asked or names)):
            keys = [run.key for run in plan_runs(one, [name])]
            if missing := len(set(keys) - there):
                print(f"{one.name}: {name} lacks {missing} of {len(keys)} runs; not published before all are there")
            else:
                complete.append(name)
        chosen += [(one, complete)] if complete else []
    return chosen


def publish_suite(suite_or_name, out: Path, to: Path, encodings: list[str]) -> None:
    """Publish one suite's runs and its probes."""
    from bench.suites.suite import Suite
    from leaderboard.data.collect import find_suite
    from leaderboard.data.store import RESULTS, publish_runs, read_runs
    from leaderboard.results.probes import of_runs, publish_probes, read_local
    from leaderboard.submission.claims import submitted_results
    from tasks import plural

    suite = suite_or_name if isinstance(suite_or_name, Suite) else find_suite(suite_or_name, out)
    claims = submitted_results(suite, to, encodings) if suite else []
    done = publish_runs(suite_or_name, out, to, encodings, claims)
    more = f", {done.failures} failed without a result" if done.failures else ""
    more += f", {done.unverified} unverified" if done.unverified else ""
    print(f"{done.suite}: {plural(done.added, 'run')} added, {done.kept} published before{more}")
    if suite is None:
        return
    runs = [run for run in read_runs(to / RESULTS / suite.name) if run.fingerprint == suite.fingerprint]
    known = {(r.fingerprint, r.task, r.encoding.name, r.seed, r.encoding.source_sha256) for r in runs}
    records = [r for r in of_runs(read_local(out / suite.name), known) if not encodings or r.encoding in encodings]
    if count := publish_probes(suite.name, records, to):
        print(f"{suite.name}: {plural(count, 'probe')} published")
