"""The frame of runs, built from results."""

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import numpy as np
import pandas as pd

from bench.result import Result, check_identity, reading
from tasks import InputError

from .columns import BY_LENGTH, RUN

KEY = ["origin", "suite", "fingerprint", "task", "encoding", "learning_rate", "seed"]
"""Columns that identify a run."""
GETTERS = {name: attrgetter(column.key) for name, column in RUN.items() if column.key}


class Damaged(UserWarning):
    """A file, or a line of one, that was skipped because it cannot be read."""


def read_text(where: str, data: bytes, expected: str) -> Result | None:
    """The result in a text; None and a warning ``Damaged`` if it cannot be read, or belongs elsewhere.

    Arguments:
        where: the file, or the line of a file.
        expected: path of the run below the results folder, or the beginning of that path: ``<suite>/``.
    """
    try:
        with reading(where, "is not a whole result"):
            result = Result.model_validate_json(data)
        if not result.path.startswith(expected):
            check_identity(where, result.path, expected)
    except InputError as fault:
        skip(str(fault))
        return None
    return result


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
    """The cells of one run: ``RUN``, ``BY_LENGTH``, versions."""
    computed = {
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

    Each dropped run is named in a warning ``Damaged``. Runs of blocks with another L have other examples.
    """
    block = frame.groupby(["suite", "fingerprint", "task", "train_length"], sort=False)  # blocks differ in L
    differs = {
        "is a second result of this run": frame.duplicated(KEY),
        "was tested on other examples than other runs of its task (data_hash)":
            frame["data_hash"] != block["data_hash"].transform("first"),
    }  # fmt: skip
    for fault, rows in differs.items():
        for run in frame[rows].itertuples():
            skip(f"result {run.suite}/{run.task}/{run.encoding}/seed-{run.seed} ({run.origin}) {fault}")
    return frame[~np.logical_or(*differs.values())].reset_index(drop=True)


def skip(fault: str) -> None:
    warnings.warn(f"{fault}; skipped", Damaged, stacklevel=2)


@contextmanager
def refuse_damage() -> Iterator[None]:
    """Raise the first warning ``Damaged`` of the block as an error.

    Raises:
        InputError: something was skipped.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", Damaged)
        try:
            yield
        except Damaged as fault:
            raise InputError(str(fault).removesuffix("; skipped")) from fault
