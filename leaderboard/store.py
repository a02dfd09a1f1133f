"""The store: published runs, in git and small enough to read.

::

    <folder>/results/<suite>/<encoding>.jsonl    one finished run a line, by task and seed; all versions of the suite
    <folder>/results/<suite>/failures.json       runs that broke and have no result
    <folder>/results/cards.json                  see ``cards``
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from bench.files import write_atomic
from bench.results import RESULT, Record, Result, first_fault
from bench.runs import Failure
from bench.suite import Suite, load_suite, shipped
from tasks import InputError, unknown

from .collect import find_suite, read_failures, read_results
from .grid import Grid, build
from .names import SUFFIX, check_names, file_name

RESULTS = "results"
FAILURES = "failures.json"

OUTCOME = ("variant", "train_length", "longest_seen", "status", "steps", "loss", "scores", "parameters", "data_hash")
"""What a run gives. Two results of one run may differ in dates, timings and in where they were made, but not in these."""

Key = tuple[str, str, str, int]
"""Fingerprint, task, encoding, seed."""


@dataclass(frozen=True)
class Published:
    """What one publication did to the store."""

    suite: str
    added: int
    """Runs that were not there."""
    kept: int
    """Runs that were there already, with the same outcome."""
    failures: int
    """Failed runs without result that the suite now has in the store."""


def publish(suite_or_name: Suite | str, out: Path, folder: Path, encodings: Sequence[str] | None = None) -> Published:
    """Fold the finished runs under ``<out>/<suite>`` into the store. Asking again changes nothing.

    Arguments:
        suite_or_name: see ``collect``.
        folder: of the leaderboard; the store is its ``results``.
        encodings: only these; by default all that have runs.

    Raises:
        InputError: no runs, a broken or contradictory one, a name that cannot be a file's, or a run that the store has with
            another outcome; then nothing was written.
    """
    asked = suite_or_name.name if isinstance(suite_or_name, Suite) else suite_or_name
    suite = suite_or_name if isinstance(suite_or_name, Suite) else find_suite(suite_or_name, out)
    name = suite.name if suite else asked
    results, failures = read_results(out / name), read_failures(out / name)
    if not results:
        raise InputError(f"no results of suite {name} under {out / name}; run `lprime run {asked}` first")
    if encodings:
        have = sorted({r.encoding.name for r in results})
        for encoding in encodings:
            if encoding not in have:
                raise unknown(f"encoding with results of suite {name}", encoding, have)
        results = [r for r in results if r.encoding.name in encodings]
        failures = {key: failure for key, failure in failures.items() if key[1] in encodings}
    place = folder / RESULTS / name
    runs, kept = merge(place, read_runs(place), results, out)
    left = merge_failures(suite, runs, read_stored_failures(place), failures)
    check_names({r.encoding.name for r in runs.values()})
    build(suite, runs.values(), {})  # refuses what contradicts itself, before anything is written

    for encoding in sorted({r.encoding.name for r in results}):
        mine = sorted((r for r in runs.values() if r.encoding.name == encoding), key=order)
        write_changed(place / file_name(encoding), "".join(r.model_dump_json() + "\n" for r in mine))
    write_changed(place / FAILURES, lines_of(left) if left else None)
    return Published(name, len(results) - kept, kept, len(left))


def merge(place: Path, stored: Iterable[Result], new: Iterable[Result], out: Path) -> tuple[dict[Key, Result], int]:
    """All runs by key, where both sides have one the stored; and how many both have."""
    runs, kept = {key(r): r for r in stored}, 0
    for result in new:
        old = runs.setdefault(key(result), result)
        if old is result:
            continue
        kept += 1
        differ = [what for what in OUTCOME if getattr(old, what) != getattr(result, what)]
        differ += ["settings"] if old.encoding.settings != result.encoding.settings else []
        if differ:
            path = out.joinpath(result.suite, result.task, result.encoding.name, f"seed-{result.seed}", RESULT)
            raise InputError(
                f"{path} contradicts the published {result.task} seed {result.seed} of {place / file_name(old.encoding.name)} "
                f"in {', '.join(differ)}, though suite and seed are the same; find out why (another processor or version "
                "rounds otherwise), then delete one"
            )
    return runs, kept


def merge_failures(
    suite: Suite | None,
    runs: Mapping[Key, Result],
    stored: Mapping[Key, Failure],
    new: Mapping[tuple[str, str, int], Failure],
) -> dict[Key, Failure]:
    """Failures of runs that have no result, the new ones first choice; without the traceback, which tells of a machine."""
    merged = dict(stored)
    for (task, encoding, seed), failure in new.items():
        own = suite.fingerprint if suite and failure.of(suite) else failure.fingerprint
        merged[own, task, encoding, seed] = failure.model_copy(update={"fingerprint": own, "traceback": ""})
    return {k: merged[k] for k in sorted(merged, key=lambda k: (*k[1:], k[0])) if k not in runs}


def read_store(folder: Path) -> dict[str, list[Result]]:
    """Suite → all its published runs, of every version, by encoding, task and seed.

    Raises:
        InputError: a file that cannot be read, or a line that is no whole result of that suite and encoding.
    """
    return {place.name: read_runs(place) for place in suites(folder)}


def suites(folder: Path) -> list[Path]:
    """The folders of suites in a leaderboard's store."""
    return [path for path in sorted((folder / RESULTS).glob("*")) if path.is_dir() and re.fullmatch(r"[a-z0-9_-]+", path.name)]


def read_runs(place: Path) -> list[Result]:
    """The runs in one suite's folder."""
    runs: dict[Key, Result] = {}
    for path in sorted(place.glob(f"*{SUFFIX}")):
        if path.name.startswith("."):
            continue  # what a killed process left
        for number, line in enumerate(read(path).removesuffix(b"\n").split(b"\n"), 1):
            result = read_line(path, number, line)
            if (result.suite, file_name(result.encoding.name)) != (place.name, path.name):
                raise InputError(
                    f"{path}, line {number}, holds a run of {result.suite} and {result.encoding.name!r}; move it there"
                )
            if runs.setdefault(key(result), result) is not result:
                raise InputError(
                    f"{path}, line {number}, holds {result.task} seed {result.seed} for the second time; delete one"
                )
    return sorted(runs.values(), key=lambda r: (r.encoding.name, *order(r)))


def read_line(path: Path, number: int, line: bytes) -> Result:
    try:
        return Result.model_validate_json(line)
    except ValidationError as error:
        raise InputError(
            f"{path}, line {number}, is not a whole result ({first_fault(error)}); take it back from git, or delete the line"
        ) from error


class FailedRun(Record):
    """Which run it was."""

    task: str
    encoding: str
    seed: int


def read_stored_failures(place: Path) -> dict[Key, Failure]:
    """The failed runs in one suite's folder.

    Raises:
        InputError: a broken file.
    """
    path = place / FAILURES
    if not path.exists():
        return {}
    try:
        found = [
            (FailedRun(**{k: f.pop(k) for k in ("task", "encoding", "seed")}), Failure(**f)) for f in json.loads(read(path))
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:  # pydantic's ValidationError is a ValueError
        raise InputError(f"{path} is not a list of failed runs; take it back from git, or delete it") from error
    return {(failure.fingerprint, run.task, run.encoding, run.seed): failure for run, failure in found}


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def grids(folder: Path) -> dict[str, list[Grid]]:
    """Suite → its grids, the newest version first; the suites with most runs there first.

    A suite's YAML says what is missing, where it still is the one that was run.
    """
    found = {}
    for name, results in read_store(folder).items():
        suite = load_suite(name) if name in shipped() else None
        if suite and not any(r.fingerprint == suite.fingerprint for r in results):
            suite = None
        newest = build(suite, results, {})[0].fingerprint
        failures = read_stored_failures(folder / RESULTS / name)
        found[name] = build(suite, results, {k[1:]: f for k, f in failures.items() if k[0] in ("", newest)})
    return dict(sorted(found.items(), key=lambda item: (-len(item[1][0].all_runs), item[0])))


def key(result: Result) -> Key:
    return result.fingerprint, result.task, result.encoding.name, result.seed


def order(result: Result) -> tuple[str, int, int, str]:
    """Of the lines of a file."""
    return result.task, result.seed, result.suite_version, result.fingerprint


def lines_of(failures: Mapping[Key, Failure]) -> str:
    """A JSON list with one failed run a line."""
    records = [
        json.dumps({"task": k[1], "encoding": k[2], "seed": k[3]} | failure.model_dump(), ensure_ascii=False)
        for k, failure in failures.items()
    ]
    return "[\n" + ",\n".join(records) + "\n]\n"


def write_changed(path: Path, content: bytes | str | None) -> bool:
    """Write a file unless it holds just that; None removes it. Whether anything changed.

    Raises:
        InputError: it cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if data is None:
            existed = path.exists()
            path.unlink(missing_ok=True)
            return existed
        if path.is_file() and path.read_bytes() == data:
            return False
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    write_atomic(path, data)
    return True
