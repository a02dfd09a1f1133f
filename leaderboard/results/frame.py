"""The frame of runs: published ones, your own, or both.

Your own are in run folders, ``<out>/<suite>/<task>/<encoding>/seed-<n>…/result.json``; see ``store`` for the published ones.
"""

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.result import RESULT, RUN_FOLDER, Damaged, Result, parse_result, read_result, unless_damaged
from bench.suites.suite import load_suite, shipped
from tasks import InputError, unknown

from .columns import BY_LENGTH, RUN
from .facts import facts, sees_content
from .file_names import RESULTS, SUFFIX

KEY = ["origin", "suite", "fingerprint", "task", "encoding", "learning_rate", "seed"]
"""Columns that identify a run."""
GETTERS = {name: attrgetter(column.key) for name, column in RUN.items() if column.key}


def build_frame(results: Iterable[Result], origin: str) -> pd.DataFrame:
    """The frame of runs.

    Arguments:
        origin: ``published`` or ``local``.
    """
    names = [*RUN, *BY_LENGTH, "versions"]
    frame = pd.DataFrame([cells_of(one) for one in results], columns=names, dtype=object)
    frame = frame.astype({name: column.kind for name, column in RUN.items() if column.kind is not str})
    return consistent(frame.assign(origin=pd.Series([origin] * len(frame), dtype=object)))


def cells_of(result: Result) -> list[Any]:
    """The cells of one run: ``RUN``, ``BY_LENGTH``, versions. ``source`` is as the bibliography has it now, if it does."""
    computed = {
        "source": facts().get(result.encoding.name, {}).get("source", result.encoding.source),
        "sees_content": result.sees_content or sees_content(result.encoding.name),
        "settings": json.dumps(result.encoding.settings, sort_keys=True, ensure_ascii=False),
        "final_loss": result.loss[-1][1] if result.loss else None,
    }
    cells: list[Any] = [computed[name] if name in computed else GETTERS[name](result) for name in RUN]
    further = {test: {score.length: score for score in scores} for test, scores in result.further.items()}
    for name, column in BY_LENGTH.items():
        test, _, field = column.key.rpartition(".")
        scores = [further.get(test, {}).get(score.length) if test else score for score in result.scores]
        values = [getattr(score, field, np.nan) for score in scores]
        cells.append(values if name == "first_wrong" else np.array(values, column.kind))
    return [*cells, result.versions]


def together(*frames: pd.DataFrame) -> pd.DataFrame:
    """One frame of several, such as published and local runs. Runs that contradict an earlier frame are skipped."""
    return consistent(pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True))


def consistent(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop repeated runs, and runs of a task that were tested on other examples than the first run of that task.

    Each dropped run is named in a warning ``Damaged``. Runs of blocks with another L, and sealed runs, have other examples.
    """
    suites_own = frame["data_hash"].mask(frame["sealed"].astype(bool))
    block = suites_own.groupby([frame[key] for key in ("suite", "fingerprint", "task", "train_length")], sort=False)
    differs = {
        "is a second result of this run": frame.duplicated(KEY),
        "was tested on other examples than other runs of its task (data_hash)":
            suites_own.notna() & (suites_own != block.transform("first")),
    }  # fmt: skip
    for fault, rows in differs.items():
        for run in frame[rows].itertuples():
            warnings.warn(
                f"result {run.suite}/{run.task}/{run.encoding}/seed-{run.seed} ({run.origin}) {fault}", Damaged, stacklevel=2
            )
    return frame[~np.logical_or(*differs.values())].reset_index(drop=True)


def local_results(out: Path, suite: str) -> Iterator[Result]:
    """The finished runs of a suite under ``out``, by task, encoding and seed."""
    for path in sorted((out / suite).glob(f"*/*/seed-*/{RESULT}")):
        run = path.parent.relative_to(out)
        named = RUN_FOLDER.fullmatch(run.name) and not any(part.startswith(".") for part in run.parts)
        if named and (result := unless_damaged(read_result, path, run.as_posix())):
            yield result


def stored_results(folder: Path, suite: str) -> Iterator[tuple[Result, bytes]]:
    """The published runs of a suite, each with its line."""
    for path in sorted((folder / RESULTS / suite).glob(f"[!.]*{SUFFIX}")):
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if result := unless_damaged(parse_result, f"{path}, line {number}", line, suite):
                yield result, line


def read_local(out: Path, suite: str) -> pd.DataFrame:
    """The frame of the finished runs of a suite under ``out``; without rows if there are none."""
    return build_frame(local_results(out, suite), "local")


def read_published(folder: Path, suite: str) -> pd.DataFrame:
    """The frame of a suite's published runs, by encoding, task, learning rate and seed; without rows if there are none."""
    return build_frame((result for result, _ in stored_results(folder, suite)), "published")


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


def published_suites(folder: Path) -> list[str]:
    """Names of the published suites, sorted."""
    return [path.name for path in sorted((folder / RESULTS).glob("[!.]*")) if path.is_dir()]


def known_suites(out: Path | None, board: Path | None) -> list[str]:
    """Names of the suites that have finished runs under ``out``, or are published, sorted."""
    own = {path.parents[3].name for path in out.glob(f"*/*/*/seed-*/{RESULT}")} if out else set()
    return sorted(own.union(published_suites(board) if board else ()))


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
    if text not in have and text not in shipped():
        raise unknown("suite", text, [*have, *shipped()])
    return text


def nothing_published(folder: Path) -> InputError:
    return InputError(
        f"nothing is published under {folder}; expected results/<suite>/<encoding>.jsonl, as `lprime publish SUITE` writes them"
    )
