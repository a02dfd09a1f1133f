"""Read the files of runs: ``<out>/<suite>/<task>/<encoding>/seed-<n>/result.json``, or ``failure.json`` of a failed run."""

import re
from collections.abc import Iterator
from pathlib import Path

from bench.result import RESULT, RUN_FOLDER, Result, read_result
from bench.runs.run import FAILURE, Failure, read_failure
from bench.suites.suite import Suite, is_shipped, load_suite, suite_command
from tasks import InputError

from .grid import Failures, Grid, build_grids
from .record_files import read_each


class NoResults(InputError):
    """A suite has no results yet."""


def collect(suite_or_name: Suite | str, out: Path) -> list[Grid]:
    """All grids under ``<out>/<suite>``, the suite's own first.

    Arguments:
        suite_or_name: a suite, the name of a shipped one, the path of a suite's YAML file, or the name of a folder of results
            whose suite is not available.

    Raises:
        InputError: no such suite, no results, a broken file, or results that contradict each other.
    """
    suite, name, results, failures = read_suite_runs(suite_or_name, out)
    if not results and not (suite and failures):
        raise no_results(suite_or_name, out / name)
    return build_grids(suite, results, failures)


def read_suite_runs(suite_or_name: Suite | str, out: Path) -> tuple[Suite | None, str, list[Result], Failures]:
    """The suite (None if only its results are available), its name, and the results and failures of its runs."""
    suite = suite_or_name if isinstance(suite_or_name, Suite) else find_suite(suite_or_name, out)
    name = suite.name if suite else str(suite_or_name)
    return suite, name, read_results(out / name), read_failures(out / name)


def no_results(suite_or_name: Suite | str, folder: Path) -> NoResults:
    name = suite_or_name.name if isinstance(suite_or_name, Suite) else suite_or_name
    command = suite_command("run", name, out=folder.parent)
    return NoResults(f"no results of suite {folder.name} under {folder}; run `{command}` first")


def find_suite(name: str, out: Path) -> Suite | None:
    """The suite of that name or path; None if it is only the name of a folder of results.

    Raises:
        InputError: neither.
    """
    plain = re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", name)  # the names a suite may have
    return None if plain and (out / name).is_dir() and not is_shipped(name) else load_suite(name)


def read_results(folder: Path) -> list[Result]:
    """All results in one suite's folder, sorted by task, encoding and seed.

    Raises:
        InputError: a broken result, or one in the folder of another run.
    """
    return read_each(run_files(folder, RESULT), lambda path, place: read_result(path, "/".join(place)))


def read_failures(folder: Path) -> Failures:
    """(task, encoding, seed) → why that run failed.

    Raises:
        InputError: a broken file.
    """

    def read(path: Path, place: tuple[str, str, str, str]) -> tuple[tuple[str, str, int], Failure | None]:
        _, task, encoding, seed = place
        return (task, encoding, int(seed.removeprefix("seed-"))), read_failure(path)

    return {run: failure for run, failure in read_each(run_files(folder, FAILURE), read) if failure}


def run_files(folder: Path, name: str) -> Iterator[tuple[Path, tuple[str, str, str, str]]]:
    """Sorted files of that name in run folders, each with (suite, task, encoding, seed-n); all other files are ignored."""
    for path in sorted(folder.glob(f"*/*/seed-*/{name}")):
        task, encoding, seed = path.relative_to(folder).parts[:3]
        if RUN_FOLDER.fullmatch(seed) and not task.startswith(".") and not encoding.startswith("."):
            yield path, (folder.name, task, encoding, seed)


def suites_with_results(out: Path) -> list[str]:
    """Names of the folders under ``out`` that hold a result, of shipped suites or others.

    Raises:
        InputError: there is none.
    """
    suites = sorted({path.parts[-5] for path in out.glob(f"*/*/*/seed-*/{RESULT}")})
    if not suites:
        raise InputError(
            f"no results under {out}; expected <suite>/<task>/<encoding>/seed-<n>/result.json as lprime run writes them"
        )
    return suites
