"""The frame of runs, built from the text of results. It is read with ``json``; ``store.publish`` validates with pydantic."""

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tasks import InputError

from .columns import BY_LENGTH, RUN

FORMAT = 1
"""The newest format of ``result.json`` that can be read."""
MOST = 2**63 - 1
KEY = ["origin", "suite", "fingerprint", "task", "encoding", "learning_rate", "seed"]
"""Columns that identify a run."""
PATHS = [column.key.split(".") if column.key else [] for column in RUN.values()]
OPTIONAL = {"trained_as": "", "weights": "", "sealed": False, "source": "", "lengths": "", "format": FORMAT}
OPTIONAL |= {"score_is": "exact+token", "symbols": 0}
"""Keys that results of earlier versions lack, with their values."""


class Damaged(UserWarning):
    """A file, or a line of one, that was skipped because it cannot be read."""


class Text(NamedTuple):
    """The text of a result that has not been read yet."""

    where: str
    """The file, or the line of a file."""
    data: bytes
    expected: tuple[Any, ...]
    """The beginning of (suite, encoding, task, seed, learning rate), as the folder and the file name give it."""


def build_frame(texts: Iterable[Text], origin: str) -> pd.DataFrame:
    """The frame of runs. What cannot be read, and what belongs elsewhere, is skipped with a warning ``Damaged``."""
    rows = list(read_rows(texts))
    names = [*RUN, *BY_LENGTH, "versions"]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else {name: [] for name in names}
    # Named differently: the text column `lengths` holds settings of the encoding.
    frame = pd.DataFrame({name: typed(values, RUN[name].kind if name in RUN else object) for name, values in columns.items()})
    frame["origin"] = pd.Series([origin] * len(frame), dtype=object, index=frame.index)
    return consistent(frame)


def typed(values: list[Any], kind: type) -> pd.Series:
    return pd.Series(values, dtype=kind if kind in (int, float, bool) else object)


def read_rows(texts: Iterable[Text]) -> Iterator[tuple[Any, ...]]:
    known: dict[str, dict[str, str]] = {}
    for text in texts:
        try:
            content = json.loads(text.data)
            if content.get("format", FORMAT) > FORMAT:
                skip(text.where, f"was written by a newer version of lprime (format {content['format']})")
                continue
            row = read_row(content, known)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
            skip(text.where, f"is not a whole result ({type(error).__name__}: {error})")
            continue
        found = (content["suite"], content["encoding"]["name"], content["task"], content["seed"], content.get("learning_rate"))
        if found[: len(text.expected)] != text.expected:
            skip(text.where, f"holds the result of {'/'.join(map(str, found))}")
            continue
        yield row


def read_row(content: dict[str, Any], known: dict[str, dict[str, str]]) -> tuple[Any, ...]:
    """The cells of one run: ``RUN``, ``BY_LENGTH``, versions.

    Arguments:
        known: versions by their JSON; equal ones are one object, since thousands of runs share them.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError: not a whole result.
    """
    scores = content["scores"]
    loss = content["loss"]
    computed = {
        "settings": json.dumps(content["encoding"]["settings"], sort_keys=True, ensure_ascii=False),
        "final_loss": loss[-1][1] if loss else None,
    }
    cells = []
    for (name, column), path in zip(RUN.items(), PATHS, strict=True):
        cells.append(typed_cell(computed[name] if not path else value_at(content, path), column.kind))
    arrays: list[Any] = []
    for name in BY_LENGTH:
        if name == "first_wrong":
            arrays.append([score.get(name, []) for score in scores])
        elif name in ("nll", "token_chance"):
            arrays.append(np.array([score.get(name) for score in scores], float))
        else:
            arrays.append(np.array([score[name] for score in scores], BY_LENGTH[name].kind))
    if not len(arrays[0]) or (np.diff(arrays[0]) <= 0).any():
        raise ValueError(f"scores must be ordered by length, got {arrays[0].tolist()}")
    if not arrays[0][0] <= content["train_length"] < arrays[0][-1]:
        raise ValueError(f"expected lengths up to L = {content['train_length']} and past it, got {arrays[0].tolist()}")
    versions = content["versions"]
    return *cells, *arrays, known.setdefault(json.dumps(versions), versions)


def value_at(content: dict[str, Any], path: list[str]) -> Any:
    """The value at a path of keys."""
    for key in path[:-1]:
        content = content[key]
    last = path[-1]
    if last in content:
        return content[last]
    return OPTIONAL[last] if last in OPTIONAL else None if last in NULLABLE else content[last]


NULLABLE = ("learning_rate", "stage_share", "cpu_share", "commit")


def typed_cell(value: Any, kind: type) -> Any:
    """A cell of its column's kind; equal texts are one object.

    Raises:
        TypeError: it is of another kind.
    """
    if value is None:
        return np.nan if kind is float else None
    if kind is str:
        return sys.intern(value)
    if kind is float:
        return float(value)
    if isinstance(value, kind):
        if isinstance(value, int) and not -MOST <= value <= MOST:
            raise OverflowError(f"{value} has more than 64 bits")
        return value
    raise TypeError(f"expected {kind.__name__}, got {value!r}")


def together(*frames: pd.DataFrame) -> pd.DataFrame:
    """One frame of several, such as published and local runs. Runs that contradict an earlier frame are skipped."""
    return consistent(pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True))


def consistent(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop repeated runs, and runs of a task that were tested on other examples than the first run of that task.

    Each dropped run is named in a warning ``Damaged``. Runs of blocks with another L have other examples.
    """
    if not len(frame):
        return frame
    twice = frame.duplicated(KEY)
    pairs = zip(frame["variant"], frame["length"], strict=True)
    tested = pd.DataFrame({"data_hash": frame["data_hash"], "shape": [hash((kind, at.tobytes())) for kind, at in pairs]})
    block = [frame["suite"], frame["fingerprint"], frame["task"], frame["train_length"]]  # blocks differ in L
    first = tested.groupby(block, sort=False).transform("first")
    differs = {
        "is a second result of this run": twice,
        "differs from other runs of its task in variant, L or test lengths": tested["shape"] != first["shape"],
        "was tested on other examples than other runs of its task (data_hash)": tested["data_hash"] != first["data_hash"],
    }
    for fault, rows in differs.items():
        for run in frame[rows].itertuples():
            skip(f"result {run.suite}/{run.task}/{run.encoding}/seed-{run.seed} ({run.origin})", fault)
    dropped = np.logical_or.reduce([rows.to_numpy() for rows in differs.values()])
    return frame[~dropped].reset_index(drop=True) if dropped.any() else frame


def skip(where: str, fault: str) -> None:
    warnings.warn(f"{where} {fault}; skipped", Damaged, stacklevel=2)


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
