"""Read the frame of runs: published ones, your own, or both.

Your own are in run folders, ``<out>/<suite>/<task>/<encoding>/seed-<n>…/result.json``; see ``store`` for the published ones.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from bench.result import RESULT, RUN_FOLDER, Result
from bench.suites.suite import is_shipped, load_suite, shipped
from tasks import InputError, unknown

from .cards import declared
from .file_names import RESULTS, SUFFIX, read_file
from .frame import build_frame, read_text, together


def local_results(out: Path, suite: str) -> Iterator[Result]:
    """The finished runs of a suite under ``out``, by task, encoding and seed."""
    for path in sorted((out / suite).glob(f"*/*/seed-*/{RESULT}")):
        run = path.parent.relative_to(out)
        named = RUN_FOLDER.fullmatch(run.name) and not any(part.startswith(".") for part in run.parts)
        if named and (result := read_text(str(path), read_file(path), run.as_posix())):
            yield result


def stored_results(folder: Path, suite: str) -> Iterator[tuple[Result, bytes]]:
    """The published runs of a suite, each with its line."""
    for path in sorted((folder / RESULTS / suite).glob(f"[!.]*{SUFFIX}")):
        for number, line in enumerate(read_file(path).splitlines(), 1):
            if result := read_text(f"{path}, line {number}", line, f"{suite}/"):
                yield result, line


def read_local(out: Path, suite: str) -> pd.DataFrame:
    """The frame of the finished runs of a suite under ``out``; without rows if there are none."""
    return build_frame(local_results(out, suite), "local")


def read_published(folder: Path, suite: str | None = None) -> pd.DataFrame:
    """The frame of the published runs, by suite, encoding, task, learning rate and seed; without rows if there are none.

    Source, lengths and stage of an encoding are those that its card declares now.

    Arguments:
        folder: of the published board.
        suite: read this suite only.
    """
    names = published_suites(folder) if suite is None else [suite]
    results = (result for name in names for result, _ in stored_results(folder, name))
    return declared(build_frame(results, "published"), folder)


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
    names = sorted(set(suites or known_suites(out, board)))
    frames = [read_published(board, name) for name in names] if board else []
    frames += [read_local(out, name) for name in names] if out else []
    if not any(map(len, frames)):
        places = ", ".join(str(place) for place in (board, out) if place is not None)
        raise InputError(f"no results{f' of suite {names[0]}' if suites else ''} under {places or 'no folder'}")
    return together(*frames)


def suites_with_runs(out: Path) -> list[str]:
    """Names of the suites that have finished runs under ``out``, sorted."""
    return sorted({path.parents[3].name for path in out.glob(f"*/*/*/seed-*/{RESULT}")})


def published_suites(folder: Path) -> list[str]:
    """Names of the published suites, sorted."""
    return [path.name for path in sorted((folder / RESULTS).glob("[!.]*")) if path.is_dir()]


def known_suites(out: Path | None, board: Path | None) -> set[str]:
    return {*(suites_with_runs(out) if out else ()), *(published_suites(board) if board else ())}


def suite_name(suite: str | Path, out: Path | None = None, board: Path | None = None) -> str:
    """The name of a suite that is given by its name, as the path of its YAML file, or with a task (``quick+my_task.py``).

    Arguments:
        out, board: folders of runs and of the published board, whose suites are known too.

    Raises:
        InputError: there is no such suite, with the nearest match; or its file is broken.
    """
    text = str(suite)
    if text.endswith((".yaml", ".yml")) or "+" in text:
        return load_suite(text).name
    have = known_suites(out, board)
    if text not in have and not is_shipped(text):
        raise unknown("suite", text, [*have, *shipped()])
    return text


def nothing_published(folder: Path) -> InputError:
    return InputError(
        f"nothing is published under {folder}; expected results/<suite>/<encoding>.jsonl, as `lprime publish SUITE` writes them"
    )
