"""Read run folders: ``<out>/<suite>/<task>/<encoding>/seed-<n>…/`` with ``result.json``, or ``failure.json`` of a failed
run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from bench.result import RESULT, RUN_FOLDER
from bench.runs.run import FAILURE
from tasks import InputError

from .files import read_file
from .frame import Text, build_frame, skip

FAILED = ["suite", "fingerprint", "task", "encoding", "seed", "error", "finished", "origin"]
"""Columns of a frame of failed runs."""


def read_local(out: Path, suite: str | None = None) -> pd.DataFrame:
    """The frame of the finished runs under ``out``, by suite, task, encoding and seed; without rows if there are none.

    Arguments:
        suite: read this suite only.
    """

    def texts() -> Iterator[Text]:
        for folder in suite_folders(out, suite):
            for path, task, encoding, seed, rate in run_files(folder, RESULT):
                data = read_or_skip(path)
                if data is not None:
                    yield Text(str(path), data, (folder.name, encoding, task, seed, rate))

    return build_frame(texts(), "local")


def local_failures(out: Path, suite: str | None = None) -> pd.DataFrame:
    """The failed runs under ``out``, finished since or not. The fingerprint is empty where it is unknown."""
    rows = []
    for folder in suite_folders(out, suite):
        for path, task, encoding, seed, _ in run_files(folder, FAILURE):
            data = read_or_skip(path)
            try:
                failure = json.loads(data or b"")
                own = failure.get("fingerprint", ""), task, encoding, seed, failure["error"], failure["finished"]
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                skip(str(path), f"is not a failure report ({error})")
                continue
            rows.append((folder.name, *own, "local"))
    return pd.DataFrame(rows, columns=FAILED)


def suite_folders(out: Path, suite: str | None) -> list[Path]:
    return [out / suite] if suite is not None else sorted(path for path in out.glob("*") if path.is_dir())


def run_files(folder: Path, name: str) -> Iterator[tuple[Path, str, str, int, float | None]]:
    """Sorted files of that name in the run folders of one suite, each with task, encoding, seed and learning rate."""
    for path in sorted(folder.glob(f"*/*/seed-*/{name}")):
        task, encoding, run = path.relative_to(folder).parts[:3]
        if (match := RUN_FOLDER.fullmatch(run)) and not task.startswith(".") and not encoding.startswith("."):
            yield path, task, encoding, int(match[1]), float(match[2]) if match[2] else None


def read_or_skip(path: Path) -> bytes | None:
    """The bytes of a file, or None and a warning."""
    try:
        return read_file(path)
    except InputError as error:
        skip(str(path), str(error))
        return None
