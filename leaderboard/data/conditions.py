"""Results of a suite's conditions (``bench.suites.vary``): part of the suite's board, without boards of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.result import RESULT, Result
from bench.suites.suite import is_shipped, split_condition

from .collect import run_files, suites_with_results
from .grid import Grid, build_grids, is_ranked


def with_conditions(grid: Grid, folder: Path, read: Callable[[Path], list[Result]]) -> Grid:
    """The grid with those of its suite's conditions that have results.

    Arguments:
        folder: holds the folders of suites.
        read: reads the results of one of these: those of runs (``collect.read_results``), or of a store (``store.read_runs``).

    Raises:
        InputError: a broken or contradictory result.
    """
    conditions = grid.suite.conditions.values() if grid.suite else ()
    return attach(grid, {suite.name: build_grids(suite, read(folder / suite.name), {}) for suite in conditions})


def attach_conditions(suites: Mapping[str, Sequence[Grid]]) -> dict[str, list[Grid]]:
    """Suite → its grids, without the conditions of suites, which move into the grids of these."""
    known = [suite for versions in suites.values() if (suite := versions[0].suite)]
    names = {condition.name for suite in known for condition in suite.conditions.values()}
    own = {name: versions for name, versions in suites.items() if name not in names and not is_shipped_condition(name)}
    return {name: [attach(versions[0], suites), *versions[1:]] for name, versions in own.items()}


def attach_others(suites: Mapping[str, Sequence[Grid]]) -> dict[str, list[Grid]]:
    """Suite → its grids, the newest with those of the other suites that have ranked tasks."""
    newest = {name: versions[0] for name, versions in suites.items() if versions[0].columns}
    others = {name: {other: grid for other, grid in newest.items() if other != name} for name in suites}
    return {name: [replace(first, others=others[name]), *older] for name, (first, *older) in suites.items()}


def suites_with_boards(out: Path) -> list[str]:
    """Names of the suites with results that have a board of their own: not conditions, and with ranked tasks, unless there are
    no others.

    Raises:
        InputError: no results.
    """
    names = suites_with_results(out)
    ranked = [name for name in names if any(is_ranked(task) for _, (_, task, _, _) in run_files(out / name, RESULT))]
    return [name for name in ranked if not is_shipped_condition(name)] or names


def is_shipped_condition(name: str) -> bool:
    return bool(split_condition(name)[1]) and is_shipped(name)


def attach(grid: Grid, suites: Mapping[str, Sequence[Grid]]) -> Grid:
    """The grid with those of its suite's conditions that have runs of their present fingerprint."""
    conditions = {}
    for condition, suite in (grid.suite.conditions if grid.suite else {}).items():
        versions = suites.get(suite.name)
        if versions and versions[0].fingerprint == suite.fingerprint and versions[0].runs:
            conditions[condition] = versions[0]
    return replace(grid, conditions=conditions)
