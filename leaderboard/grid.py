"""The grid of a board: which runs belong together, which are missing, and that no two of them contradict each other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from bench.results import Result
from bench.runs import Failure
from bench.suite import Suite
from tasks import InputError

LOCAL = " (local)"
"""Ends the names of rows that are not published, where they stand beside published ones."""


@dataclass(frozen=True)
class Column:
    """What every run of one task shares."""

    task: str
    variant: str
    train_length: int
    lengths: tuple[int, ...]
    """Tested, ascending."""
    chance: tuple[float, ...]
    """Exact match of guessing, at each of ``lengths``."""
    examples: int
    """Test examples at every length."""
    steps: int
    """Training steps of a run that does not diverge."""

    @property
    def at(self) -> Int[np.ndarray, " N"]:
        return np.array(self.lengths)


@dataclass(frozen=True)
class Price:
    """What a training step of an encoding costs, as times NoPE's: both were measured in turns, in one process."""

    time: float
    """At L."""
    time_past: float
    """At the longest length measured."""
    memory: float
    """Peak, at the longest length measured: at L the model is all there is."""
    busy: bool
    """The machine did something else too."""


@dataclass(frozen=True)
class Grid:
    """Everything of one fingerprint: what was to be run, and what there is of it."""

    name: str
    """Of the suite."""
    version: int
    fingerprint: str
    suite: Suite | None
    """None for results whose suite is not at hand: what was to be run is then guessed from what there is."""
    columns: tuple[Column, ...]
    encodings: tuple[str, ...]
    """Those of the suite in its order, then all others found, by name."""
    seeds: tuple[int, ...]
    """Those that every cell should have."""
    runs: Mapping[tuple[str, str], tuple[Result, ...]]
    """(task, encoding) → its runs by seed; absent where there is none."""
    failures: Mapping[tuple[str, str, int], Failure] = field(default_factory=dict)
    """(task, encoding, seed) → the failure of a run without result."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By encoding, where it was measured by itself."""

    @cached_property
    def all_runs(self) -> list[Result]:
        return [run for key in sorted(self.runs) for run in self.runs[key]]

    def exact(self, task: str, encoding: str) -> Float[np.ndarray, "S N"]:
        """Exact match of each run of a cell at each test length; zero where the run diverged."""
        runs = self.runs.get((task, encoding), ())
        rows = [[0.0 if run.status == "diverged" else score.exact for score in run.scores] for run in runs]
        return np.array(rows) if rows else np.zeros((0, 0))


def build(suite: Suite | None, results: Iterable[Result], failures: Mapping[tuple[str, str, int], Failure]) -> list[Grid]:
    """One grid a fingerprint: the suite's own first (even if empty), then the others, newest first.

    Arguments:
        suite: what was to be run; None to go by the results alone.
        failures: counted to the first grid if they are of its fingerprint, unless the same run has a result there.

    Raises:
        InputError: two results contradict each other, or the suite.
    """
    by_fingerprint: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: (r.task, r.encoding.name, r.seed)):
        by_fingerprint.setdefault(result.fingerprint, []).append(result)
    for runs in by_fingerprint.values():
        check(runs)

    newest = sorted(
        by_fingerprint, key=lambda f: (by_fingerprint[f][0].suite_version, last(by_fingerprint[f]), f), reverse=True
    )
    grids = []
    if suite:
        own = by_fingerprint.get(suite.fingerprint, [])
        grids.append(expected(suite, own, {run: f for run, f in failures.items() if f.of(suite)}))
        newest = [f for f in newest if f != suite.fingerprint]
    for fingerprint in newest:
        own_failures = {run: f for run, f in failures.items() if f.fingerprint in ("", fingerprint)}
        grids.append(found(by_fingerprint[fingerprint], {} if grids else own_failures))
    return grids


def expected(suite: Suite, results: list[Result], failures: Mapping[tuple[str, str, int], Failure]) -> Grid:
    """The grid that a suite asks for, with whatever extra encodings and seeds there are of the same fingerprint."""
    columns = []
    for spec in suite.tasks:
        lengths, task = suite.test_lengths(spec.task), suite.make_task(spec.task)
        of_suite = Column(
            task=spec.task,
            variant=spec.variant,
            train_length=spec.train_length,
            lengths=tuple(lengths),
            chance=tuple(task.chance(n) for n in lengths),
            examples=suite.test_examples,
            steps=suite.recipe_for(spec.task).steps,
        )
        columns.append(of_suite)
        for result in results:
            if result.task == spec.task:
                of_result = column([result])
                for what in ("variant", "train_length", "lengths", "examples"):
                    ours, theirs = getattr(of_suite, what), getattr(of_result, what)
                    if ours != theirs:
                        raise InputError(f"{label(result)}: {what} is {theirs}, but suite {suite.name} says {ours}")
    known = {c.task for c in columns}
    for result in results:
        if result.task not in known:
            raise InputError(f"{label(result)}: suite {suite.name} has no such task (it has: {', '.join(sorted(known))})")
    return assemble(
        suite, suite.name, suite.version, suite.fingerprint, columns, suite.encoding_names, suite.seeds, results, failures
    )


def found(results: list[Result], failures: Mapping[tuple[str, str, int], Failure]) -> Grid:
    """The grid that results alone span: all their tasks × all their encodings × all their seeds."""
    one = results[0]
    columns = [column([r for r in results if r.task == task]) for task in sorted({r.task for r in results})]
    seeds = sorted({r.seed for r in results})
    return assemble(None, one.suite, one.suite_version, one.fingerprint, columns, [], seeds, results, failures)


def assemble(
    suite: Suite | None,
    name: str,
    version: int,
    fingerprint: str,
    columns: list[Column],
    encodings: Iterable[str],
    seeds: Iterable[int],
    results: list[Result],
    failures: Mapping[tuple[str, str, int], Failure],
) -> Grid:
    runs: dict[tuple[str, str], tuple[Result, ...]] = {}
    for result in results:  # ascending in seed
        key = result.task, result.encoding.name
        runs[key] = (*runs.get(key, ()), result)
    done = {(r.task, r.encoding.name, r.seed) for r in results}
    failed = {key: failures[key] for key in sorted(failures) if key not in done}
    order = list(encodings)
    order += sorted(({r.encoding.name for r in results} | {encoding for _, encoding, _ in failed}) - set(order))
    return Grid(name, version, fingerprint, suite, tuple(columns), tuple(order), tuple(sorted(seeds)), runs, failed)


def column(results: list[Result]) -> Column:
    """What the (agreeing) results of one task share."""
    one = results[0]
    return Column(
        task=one.task,
        variant=one.variant,
        train_length=one.train_length,
        lengths=tuple(s.length for s in one.scores),
        chance=tuple(s.chance for s in one.scores),
        examples=min(s.count for s in one.scores),
        steps=max(r.steps for r in results),
    )


def check(results: list[Result]) -> None:
    """Refuse results of one fingerprint that contradict each other.

    Raises:
        InputError: a run that stands twice, or scores that cannot be compared; the message names the runs.
    """
    first: dict[str, Result] = {}
    seen: set[tuple[str, str, int]] = set()
    for result in results:
        key = result.task, result.encoding.name, result.seed
        if key in seen:
            raise InputError(f"{label(result)}: there are two results of this run; keep one")
        seen.add(key)
        lengths = [s.length for s in result.scores]
        both_sides = result.in_distribution and result.out_of_distribution
        if not both_sides or lengths != sorted(set(lengths)) or lengths[0] < 1:
            raise InputError(
                f"{label(result)}: scores must be at ascending lengths from 1 on, up to L = {result.train_length} and past it, "
                f"got {lengths}"
            )
        for s in result.scores:
            if not (0 <= s.exact <= 1 and 0 <= s.chance < 1):
                raise InputError(f"{label(result)}: exact match {s.exact} (chance {s.chance}) at length {s.length} is no share")
        other = first.setdefault(result.task, result)
        if result.data_hash != other.data_hash:
            raise InputError(f"{label(result)} and {label(other)} were tested on different examples (data_hash); run one again")
        if (result.variant, result.train_length, chances(result)) != (other.variant, other.train_length, chances(other)):
            raise InputError(f"{label(result)} and {label(other)} differ in variant, L, test lengths or chance; run one again")


def chances(result: Result) -> list[tuple[int, int, float]]:
    return [(s.length, s.count, s.chance) for s in result.scores]


def label(result: Result) -> str:
    return f"result {result.suite}/{result.task}/{result.encoding.name}/seed-{result.seed}"


def last(results: Iterable[Result]) -> str:
    """When the last of some runs ended."""
    return max(r.finished for r in results)
