"""Read what runs left behind: ``<out>/<suite>/<task>/<encoding>/seed-<n>/result.json``, or ``failure.json`` in its place."""

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from bench.results import RESULT, Result, first_fault, read_result
from bench.runs import FAILURE, Failure
from bench.suite import Suite, load_suite, shipped
from tasks import InputError

from .grid import Grid, build


class NoResults(InputError):
    """There is nothing yet."""


def collect(suite_or_name: Suite | str, out: Path) -> list[Grid]:
    """All grids under ``<out>/<suite>``, the suite's own first.

    Arguments:
        suite_or_name: a suite, the name of a shipped one, the path of a suite's YAML file, or the name of a folder of results
            whose suite is not at hand.

    Raises:
        InputError: no such suite, no results, a broken file, or results that contradict each other.
    """
    asked = suite_or_name.name if isinstance(suite_or_name, Suite) else suite_or_name
    suite = suite_or_name if isinstance(suite_or_name, Suite) else find_suite(suite_or_name, out)
    name = suite.name if suite else asked
    results, failures = read_results(out / name), read_failures(out / name)
    if not results and not (suite and failures):
        raise NoResults(f"no results of suite {name} under {out / name}; run `lprime run {asked}` first")
    return build(suite, results, failures)


def find_suite(name: str, out: Path) -> Suite | None:
    """The suite of that name or path; None if it is only the name of a folder of results.

    Raises:
        InputError: neither.
    """
    plain = re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name)  # the names a suite may have
    return None if plain and name not in shipped() and (out / name).is_dir() else load_suite(name)


def read_results(folder: Path) -> list[Result]:
    """All results of one suite's folder, by task, encoding and seed.

    Raises:
        InputError: a broken result, or one that lies where another run's belongs.
    """
    results = []
    for path, place in run_files(folder, RESULT):
        result = read_result(path)
        content = (result.suite, result.task, result.encoding.name, f"seed-{result.seed}")
        if content != place:
            raise InputError(f"{path} holds the result of {'/'.join(content)}; move it there or delete it")
        results.append(result)
    return results


def read_failures(folder: Path) -> dict[tuple[str, str, int], Failure]:
    """(task, encoding, seed) → why that run failed.

    Raises:
        InputError: a broken file.
    """
    failures = {}
    for path, (_, task, encoding, seed) in run_files(folder, FAILURE):
        try:
            failure = Failure.model_validate_json(path.read_bytes())
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}") from error
        except ValidationError as error:
            raise InputError(f"{path} is not a failure report ({first_fault(error)}); delete it") from error
        failures[task, encoding, int(seed.removeprefix("seed-"))] = failure
    return failures


def run_files(folder: Path, name: str) -> Iterator[tuple[Path, tuple[str, str, str, str]]]:
    """Files of that name at the depth of a run, in order, with (suite, task, encoding, seed-n); all else is ignored."""
    for path in sorted(folder.glob(f"*/*/seed-*/{name}")):
        task, encoding, seed = path.relative_to(folder).parts[:3]
        if re.fullmatch(r"seed-(0|[1-9][0-9]*)", seed) and not task.startswith(".") and not encoding.startswith("."):
            yield path, (folder.name, task, encoding, seed)
