"""The frame of runs that were asked for: published ones, your own, or both."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from bench.suites.suite import is_shipped, load_suite, shipped
from tasks import InputError, unknown

from .local import read_local
from .store import published_suites, read_published


def suites_with_runs(out: Path) -> list[str]:
    """Names of the suites that have finished runs under ``out``, sorted."""
    return sorted({path.parents[3].name for path in out.glob("*/*/*/seed-*/result.json")})


def suite_name(suite: str | Path, out: Path | None = None, board: Path | None = None) -> str:
    """The name of a suite that is given by its name, or as the path of its YAML file.

    Arguments:
        out, board: folders of runs and of the published board, whose suites are known too.

    Raises:
        InputError: there is no such suite, with the nearest match; or its file is broken.
    """
    text = str(suite)
    if text.endswith((".yaml", ".yml")):
        return load_suite(text).name
    have = {*(suites_with_runs(out) if out else ()), *(published_suites(board) if board else ())}
    if text not in have and not is_shipped(text):
        raise unknown("suite", text, [*have, *shipped()])
    return text


def nothing_published(folder: Path) -> InputError:
    return InputError(
        f"nothing is published under {folder}; expected results/<suite>/<encoding>.jsonl, as `lprime publish SUITE` writes them"
    )


def read_runs(suites: Sequence[str] | None, out: Path | None, board: Path | None) -> pd.DataFrame:
    """The frame of published runs and of your own, of some suites or of all.

    Arguments:
        suites: names; None reads all.
        out: folder of your runs; None leaves them out.
        board: folder of the published board; None leaves it out.

    Raises:
        InputError: there are no results.
    """
    if board and not out and not published_suites(board):
        raise nothing_published(board)
    known = {*(suites_with_runs(out) if out else ()), *(published_suites(board) if board else ())}
    names = sorted(set(suites or known))
    frames = [read_published(board, name) for name in names] if board else []
    frames += [read_local(out, name) for name in names] if out else []
    found = [frame for frame in frames if len(frame)]
    if not found:
        places = ", ".join(str(place) for place in (board, out) if place is not None)
        raise InputError(f"no results{f' of suite {names[0]}' if suites else ''} under {places or 'no folder'}")
    return pd.concat(found, ignore_index=True)


def without_result(failures: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Failed runs that have not finished since."""
    key = ["suite", "task", "encoding", "seed"]
    done = set(runs[key].itertuples(index=False, name=None))
    return failures[[one not in done for one in failures[key].itertuples(index=False, name=None)]]
