"""Read results for commands: those of your runs, or the published ones."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from leaderboard import archived_boards, published_folder

if TYPE_CHECKING:
    from leaderboard.data.grid import Grid


def read_grids(suites: Iterable[str] | None, out: Path, published: bool) -> "dict[str, list[Grid]]":
    """Name of a suite → its grids, newest version first; None reads all suites that have results.

    Raises:
        InputError: no such suite, no results, a broken file, or results that contradict each other.
    """
    from lprime.api.tables import suite_name

    if not published:
        from leaderboard.data.collect import NoResults, collect, suites_with_results

        asked = {suite_name(suite): suite for suite in suites or suites_with_results(out)}  # a suite and its file are one
        try:
            return {name: collect(suite, out) for name, suite in asked.items()}
        except NoResults as error:
            raise NoResults(f"{error}, or use --published") from None

    from leaderboard.data.cards import read_cards, with_cards
    from leaderboard.data.store import published_grids
    from tasks import InputError, unknown

    out = published_folder(out)
    grids = with_cards(published_grids(out), read_cards(out))
    if not grids:
        archived = ", ".join(f"--board {place}" for place in archived_boards(out))
        raise InputError(
            f"nothing is published under {out}; expected results/<suite>/<encoding>.jsonl as lprime publish writes them"
            + (f"; earlier versions: {archived}" if archived else "")
        )
    names = dict.fromkeys(map(suite_name, suites or grids))
    for name in names:
        if name not in grids:
            raise unknown("published suite", name, grids)
    return {name: grids[name] for name in names}


def full_name(name: str) -> str:
    """The name under which an encoding's results are stored, if it is given as a file or with settings."""
    from bench.plugins.references import references_in

    if not ("(" in name or references_in(name)):
        return name  # a look-up would load torch
    from bench.plugins.registry import full_name as stored_name

    return stored_name(name)
