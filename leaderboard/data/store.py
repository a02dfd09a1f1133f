"""The store of published runs: text files, kept in git.

::

    <folder>/results/<suite>/<encoding>.jsonl    one finished run per line, by task and seed; all versions of the suite
    <folder>/results/<suite>/unverified/…        the same for runs that nobody has recomputed in a sandbox; they are not ranked
    <folder>/results/<suite>/failures.json       failed runs that have no result
    <folder>/results/cards.json                  see ``cards``
    <folder>/results/findings.json               see ``outcomes``
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from bench.result import RESULT, Result, check_identity, reading
from bench.runs.run import Failure
from bench.suites.suite import Suite, is_shipped, load_suite
from tasks import InputError, unknown

from .collect import no_results, read_suite_runs
from .file_names import check_names, file_name
from .grid import Failures, Grid, age, build_grids, with_unverified
from .record_files import read_each, stored_lines, write_if_changed

RESULTS = "results"
FAILURES = "failures.json"
UNVERIFIED = "unverified"

OUTCOME = ("variant", "train_length", "longest_seen", "status", "steps", "loss", "scores", "parameters", "data_hash")
"""Fields that are the outcome of a run. Two results of one run may differ in dates, timings and machine, but not in these."""

RunKey = tuple[str, str, str, int]
"""Fingerprint, task, encoding, seed."""


class StoredFailure(Failure):
    """The failure report of a run, and which run it is."""

    task: str
    encoding: str
    seed: int


FAILED_RUNS = TypeAdapter(list[StoredFailure])


@dataclass(frozen=True)
class Publication:
    """Changes that ``publish_runs`` made to the store."""

    suite: str
    added: int
    """New runs."""
    kept: int
    """Runs published before, with the same outcome."""
    failures: int
    """Failed runs of the suite without a result, now in the store."""
    unverified: int = 0
    """Runs of these encodings that are not ranked."""


def publish_runs(
    suite_or_name: Suite | str,
    out: Path,
    folder: Path,
    encodings: Sequence[str] | None = None,
    claims: Sequence[Result] = (),
) -> Publication:
    """Add the finished runs under ``<out>/<suite>`` to the store. Publishing the same runs again changes nothing.

    Runs of code that is not built in are unverified if they were not sealed; so are submitted ones, until they are recomputed.

    Arguments:
        suite_or_name: see ``collect``.
        folder: the published board; the store is its ``results``.
        encodings: publish only these; None publishes all that have runs.
        claims: submitted results of this suite.

    Raises:
        InputError: no runs, a broken or contradictory one, a name that no file can have, or a run published before with
            another outcome. Nothing is written then.
    """
    suite, name, results, failures = read_suite_runs(suite_or_name, out)
    if not results and not claims:
        raise no_results(suite_or_name, out / name)
    if encodings:
        have = sorted({r.encoding.name for r in [*results, *claims]})
        for encoding in encodings:
            if encoding not in have:
                raise unknown(f"encoding with results of suite {name}", encoding, have)
        results = [r for r in results if r.encoding.name in encodings]
        claims = [r for r in claims if r.encoding.name in encodings]
        failures = {key: failure for key, failure in failures.items() if key[1] in encodings}
    from bench.plugins.registry import is_built_in

    unsealed = [r for r in results if not (r.sealed or is_built_in(r.encoding.name))]
    results = [r for r in results if r.sealed or is_built_in(r.encoding.name)]
    place = folder / RESULTS / name
    runs, kept = merge_runs(place, read_runs(place), results, out)
    ranked = {r.encoding.name for r in runs.values()}
    failures = {key: failure for key, failure in failures.items() if key[1] in ranked or is_built_in(key[1])}
    all_failures = merge_failures(suite, runs, read_stored_failures(place), failures)
    claimed = {run_key(r): r for r in claims}  # they replace runs of earlier submissions, and local ones
    stored, local = ([r for r in own if run_key(r) not in claimed] for own in (read_unverified(place), unsealed))
    unverified = merge_runs(place / UNVERIFIED, stored, local, out)[0] | claimed
    unverified = {key: r for key, r in unverified.items() if key not in runs}
    check_names(ranked | {r.encoding.name for r in unverified.values()})
    build_grids(suite, runs.values(), {})  # refuses contradictions before anything is written
    build_grids(suite, unverified.values(), {})
    claims = [*claims, *unsealed]

    write_runs(place, runs.values(), {r.encoding.name for r in results})
    lines = ",\n".join(failure.model_dump_json() for failure in all_failures)
    write_if_changed(place / FAILURES, f"[\n{lines}\n]\n" if lines else None)
    write_runs(place / UNVERIFIED, unverified.values(), {r.encoding.name for r in [*results, *claims]})
    return Publication(
        name, len(results) - kept, kept, len(all_failures), len({run_key(r) for r in claims} & unverified.keys())
    )


def merge_runs(place: Path, stored: Iterable[Result], new: Iterable[Result], out: Path) -> tuple[dict[RunKey, Result], int]:
    """All runs by key, the stored one where both sides have it, and how many both sides have."""
    runs, kept = {run_key(r): r for r in stored}, 0
    for result in new:
        old = runs.setdefault(run_key(result), result)
        if old is result:
            continue
        kept += 1
        differ = [name for name in OUTCOME if getattr(old, name) != getattr(result, name)]
        differ += ["settings"] if old.encoding.settings != result.encoding.settings else []
        if differ:
            path = out / result.path / RESULT
            raise InputError(
                f"{path} contradicts the published {result.task} seed {result.seed} of {place / file_name(old.encoding.name)} "
                f"in {', '.join(differ)}, though suite and seed are the same; find out why (another processor or version "
                "may round differently), then delete one"
            )
    return runs, kept


def merge_failures(
    suite: Suite | None, runs: Mapping[RunKey, Result], stored: Mapping[RunKey, StoredFailure], new: Failures
) -> list[StoredFailure]:
    """Failures of runs without a result. New ones replace stored ones, and lose their traceback, which shows machine paths."""
    merged = dict(stored)
    for (task, encoding, seed), failure in new.items():
        fingerprint = suite.fingerprint if suite and failure.of(suite) else failure.fingerprint
        own = {"task": task, "encoding": encoding, "seed": seed, "fingerprint": fingerprint, "traceback": ""}
        merged[fingerprint, task, encoding, seed] = StoredFailure(**(failure.model_dump() | own))
    return [merged[key] for key in sorted(merged, key=lambda key: (*key[1:], key[0])) if key not in runs]


def read_store(folder: Path) -> dict[str, list[Result]]:
    """Suite → all its published runs, of every version, by encoding, task and seed.

    Raises:
        InputError: a file that cannot be read, or a line that is not a complete result of that suite and encoding.
    """
    return {place.name: read_runs(place) for place in suite_folders(folder)}


def suite_folders(folder: Path) -> list[Path]:
    """The folders of the published suites, sorted."""
    name = r"[a-z0-9_-][a-z0-9_.-]*"
    return [path for path in sorted((folder / RESULTS).glob("*")) if path.is_dir() and re.fullmatch(name, path.name)]


def read_unverified(place: Path) -> list[Result]:
    """The runs in one suite's folder that are not ranked."""
    return read_runs(place / UNVERIFIED, place.name)


def read_runs(place: Path, suite: str = "") -> list[Result]:
    """All runs in one suite's folder; see ``read_store``.

    Arguments:
        suite: its name; by default that of the folder.
    """
    runs: dict[RunKey, Result] = {}

    def read(line_place: str, line: bytes, file: str) -> None:
        with reading(f"{line_place},", "is not a whole result", "restore it from git, or delete the line"):
            result = Result.model_validate_json(line)
        identity = f"{result.suite}/{file_name(result.encoding.name)}"
        check_identity(f"{line_place},", identity, f"{suite or place.name}/{file}")
        if runs.setdefault(run_key(result), result) is not result:
            raise InputError(f"{line_place}, is a duplicate of {result.task} seed {result.seed}; delete one")

    read_each(stored_lines(place), read)
    return sorted(runs.values(), key=lambda r: (r.encoding.name, *line_order(r)))


def write_runs(place: Path, runs: Iterable[Result], encodings: Iterable[str]) -> None:
    """Write the files of these encodings; one without runs is deleted."""
    ordered = sorted(runs, key=line_order)
    for encoding in sorted(encodings):
        text = "".join(r.model_dump_json() + "\n" for r in ordered if r.encoding.name == encoding)
        write_if_changed(place / file_name(encoding), text or None)


def read_stored_failures(place: Path) -> dict[RunKey, StoredFailure]:
    """The failed runs in one suite's folder.

    Raises:
        InputError: a broken file.
    """
    path = place / FAILURES
    if not path.exists():
        return {}
    with reading(path, "is not a list of failed runs", "restore it from git, or delete it"):
        return {(f.fingerprint, f.task, f.encoding, f.seed): f for f in FAILED_RUNS.validate_json(path.read_bytes())}


def published_grids(folder: Path) -> dict[str, list[Grid]]:
    """Suite → its grids, newest version first; suites with most runs in the newest first.

    Missing runs are listed only for shipped suites with results of their current fingerprint.
    """
    grids = {}
    for name, results in read_store(folder).items():
        suite = load_suite(name) if is_shipped(name) else None
        if suite and results and not any(r.fingerprint == suite.fingerprint for r in results):
            suite = None
        if not (suite or results):
            continue  # only unverified runs, of a suite that is not available
        grids[name] = stored_grids(folder / RESULTS / name, suite, results)
    return dict(sorted(grids.items(), key=lambda item: (-len(item[1][0].all_runs), item[0])))


def stored_grids(place: Path, suite: Suite | None, results: Sequence[Result], failures: Failures | None = None) -> list[Grid]:
    """The grids of these results, with the stored failures and unverified runs of one suite's folder and these failures."""
    newest = suite.fingerprint if suite else max(results, key=age).fingerprint
    stored = {key[1:]: failure for key, failure in read_stored_failures(place).items() if key[0] in ("", newest)}
    claims = read_unverified(place)
    return [with_unverified(grid, claims) for grid in build_grids(suite, results, {**stored, **(failures or {})})]


def run_key(result: Result) -> RunKey:
    return result.fingerprint, result.task, result.encoding.name, result.seed


def line_order(result: Result) -> tuple[str, int, int, str]:
    """Sort key of the lines of a file."""
    return result.task, result.seed, result.suite_version, result.fingerprint
