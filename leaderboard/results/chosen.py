"""The frame of runs that were asked for: published ones, your own, or both."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bench.suites.suite import is_shipped, shipped
from tasks import InputError, unknown

from .local import read_local
from .store import published_suites, read_published


def read_runs(suites: Sequence[str] | None, out: Path | None, board: Path | None) -> pd.DataFrame:
    """The frame of published runs and of your own, of some suites or of all.

    Arguments:
        out: folder of your runs; None leaves them out.
        board: folder of the published board; None leaves it out.

    Raises:
        InputError: no results, or none of a suite, with the nearest match.
    """
    known = set(published_suites(board)) if board else set()
    known |= {path.parents[3].name for path in out.glob("*/*/*/seed-*/result.json")} if out else set()
    for name in suites or ():
        if name not in known and not is_shipped(name):
            raise unknown("suite with results", name, known) if known else unknown("suite", name, shipped())
    frames = [read_published(board, name) for name in sorted(suites or known)] if board else []
    frames += [read_local(out, name) for name in sorted(suites or known)] if out else []
    found = [frame for frame in frames if len(frame)]
    if not found:
        places = ", ".join(str(place) for place in (board, out) if place is not None)
        raise InputError(f"no results{f' of suite {suites[0]}' if suites else ''} in {places or 'no folder'}")
    return pd.concat(found, ignore_index=True)
