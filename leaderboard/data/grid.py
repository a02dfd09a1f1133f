"""The grid of a board: which runs belong together and which are missing. Contradictory runs are refused."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import TypeVar

import numpy as np
from jaxtyping import Float, Int

import tasks
from bench.probe.record import ProbeRecord
from bench.result import Result
from bench.runs.run import Failure
from bench.suites.suite import Suite
from tasks import InputError

T = TypeVar("T")
LOCAL = " (local)"
"""Suffix of the names of local rows where a board also shows published ones."""

Failures = Mapping[tuple[str, str, int], Failure]
"""(task, encoding, seed) → why that run failed."""


@dataclass(frozen=True)
class Column:
    """Task, lengths and training steps that all runs of one task share."""

    task: str
    variant: str
    train_length: int
    lengths: tuple[int, ...]
    """Test lengths, ascending."""
    chance: tuple[float, ...]
    """Exact match of guessing at each of ``lengths``."""
    examples: int
    """Test examples per length."""
    steps: int
    """Training steps of a run that does not diverge."""

    @property
    def at(self) -> Int[np.ndarray, " N"]:
        """``lengths`` as an array."""
        return np.array(self.lengths)


@dataclass(frozen=True)
class RelativeCost:
    """Cost of a training step relative to NoPE, the two measured alternately in one process."""

    time: float
    """Step time at L."""
    time_past: float
    """Step time at the longest length measured."""
    memory: float
    """Peak memory, at the longest length measured (at L, the model itself dominates)."""
    busy: bool
    """Whether the machine was busy with something else."""
    device: str = ""
    """Where it was measured; ratios on other processors differ."""


@dataclass(frozen=True)
class Grid:
    """All runs of one fingerprint, finished, failed or missing."""

    name: str
    """Name of the suite."""
    version: int
    fingerprint: str
    suite: Suite | None
    """None if the suite is not available; the expected runs are then inferred from the results."""
    columns: tuple[Column, ...]
    """The tasks that boards rank by."""
    encodings: tuple[str, ...]
    """Encodings with a run or a failure: those of the suite in its order, then all others by name."""
    seeds: tuple[int, ...]
    """Seeds that every cell should have."""
    runs: Mapping[tuple[str, str], tuple[Result, ...]]
    """(task, encoding) → its runs by seed; no key without runs."""
    failures: Failures = field(default_factory=dict)
    """Failures of runs without a result."""
    costs: Mapping[str, RelativeCost] = field(default_factory=dict)
    """Encoding → its measured costs, if its card has them."""
    past: Mapping[str, str] = field(default_factory=dict)
    """Encoding → what it does past L by design, if its card declares it."""
    conditions: Mapping[str, "Grid"] = field(default_factory=dict)
    """Condition of the suite → its grid, where ``data.conditions`` added those with runs."""
    others: Mapping[str, "Grid"] = field(default_factory=dict)
    """Other suite → its newest grid, where ``data.conditions`` added them."""
    probes: Sequence[ProbeRecord] = ()
    """What probes found in its trained models, where ``data.probes`` added it."""
    unverified: "Grid | None" = None
    """Runs of submissions that nobody has recomputed; they are not ranked."""

    @cached_property
    def all_runs(self) -> list[Result]:
        return [run for cell in sorted(self.runs) for run in self.runs[cell]]

    def exact(self, task: str, encoding: str) -> Float[np.ndarray, "S N"]:
        """Exact match of each run of a cell at each test length."""
        return self.recorded(task, encoding, "exact")

    def step_times(self, encoding: str) -> list[list[float]]:
        """Step times of an encoding's runs in milliseconds, by task; none of a busy machine, none of a run without a time."""
        cells = [self.runs.get((column.task, encoding), ()) for column in self.columns]
        return [[run.timings.step_ms for run in runs if run.timings.step_ms > 0 and not run.timings.busy] for runs in cells]

    def recorded(self, task: str, encoding: str, name: str) -> Float[np.ndarray, "S N"]:
        """A number of ``LengthScore`` for each run of a cell at each test length; NaN where it is unknown."""
        lengths = next(column.lengths for column in self.columns if column.task == task)
        runs = self.runs.get((task, encoding), ())
        return np.array([[getattr(s, name) for s in run.scores] for run in runs], float).reshape(-1, len(lengths))


def once_per_grid(function: Callable[[Grid], T]) -> Callable[[Grid], T]:
    """Keep what a function returns for a grid with the grid, as ``functools.cached_property`` does: nobody may change it."""

    @wraps(function)
    def kept(grid: Grid) -> T:
        if function.__name__ not in vars(grid):
            vars(grid)[function.__name__] = function(grid)
        return vars(grid)[function.__name__]

    return kept


def build_grids(suite: Suite | None, results: Iterable[Result], failures: Failures) -> list[Grid]:
    """One grid per fingerprint: the suite's own first (even if empty), then the others, newest first.

    Arguments:
        suite: defines the expected runs; None infers them from the results.
        failures: added to the first grid if they have its fingerprint and the run has no result there.

    Raises:
        InputError: a result contradicts another one or the suite.
    """
    by_fingerprint: dict[str, list[Result]] = {}
    for result in sorted(results, key=lambda r: (r.task, r.encoding.name, r.seed)):
        by_fingerprint.setdefault(result.fingerprint, []).append(result)
    for runs in by_fingerprint.values():
        refuse_contradictions(runs)

    grids = []
    if suite:
        own_failures = {run: failure for run, failure in failures.items() if failure.of(suite)}
        grids.append(suite_grid(suite, by_fingerprint.pop(suite.fingerprint, []), own_failures))
    for fingerprint in sorted(by_fingerprint, key=lambda one: max(map(age, by_fingerprint[one])), reverse=True):
        own_failures = {run: failure for run, failure in failures.items() if failure.fingerprint in ("", fingerprint)}
        grids.append(results_grid(by_fingerprint[fingerprint], {} if grids else own_failures))
    return grids


def age(result: Result) -> tuple[int, str, str]:
    """Sort key by which fingerprints are ordered, that of their newest result."""
    return result.suite_version, result.finished, result.fingerprint


def suite_grid(suite: Suite, results: list[Result], failures: Failures) -> Grid:
    """The grid that a suite defines, with any further encodings and seeds that have results of its fingerprint."""
    columns = {}
    for spec in suite.tasks:
        lengths, task = suite.test_lengths(spec.task), suite.make_task(spec.task)
        columns[spec.task] = Column(
            task=spec.task,
            variant=spec.variant,
            train_length=spec.train_length,
            lengths=tuple(lengths),
            chance=tuple(task.chance(n) for n in lengths) if is_ranked(spec.task) else (),  # slow where it is not needed
            examples=suite.test_examples,
            steps=suite.recipe_for(spec.task).steps,
        )
    for result in results:
        if result.task not in columns:
            expected = ", ".join(sorted(columns))
            raise InputError(f"{run_label(result)}: suite {suite.name} has no such task; expected one of: {expected}")
        actual = task_column([result])
        for name in ("variant", "train_length", "lengths", "examples"):
            value, expected = getattr(actual, name), getattr(columns[result.task], name)
            if value != expected:
                raise InputError(f"{run_label(result)}: {name} is {value}, but suite {suite.name} has {expected}")
    identity = suite.name, suite.version, suite.fingerprint, suite
    ranked = [column for column in columns.values() if is_ranked(column.task)]
    return assemble_grid(identity, ranked, suite.encoding_names, suite.seeds, results, failures)


def with_unverified(grid: Grid, claims: Iterable[Result]) -> Grid:
    """The grid with those of the submitted runs that have its fingerprint."""
    own = [run for run in claims if run.fingerprint == grid.fingerprint]
    if not own:
        return grid
    (claimed,) = build_grids(None, own, {})
    return replace(grid, unverified=replace(claimed, columns=grid.columns, seeds=grid.seeds))


def results_grid(results: list[Result], failures: Failures) -> Grid:
    """The grid of results without a suite: all their tasks × all their encodings × all their seeds."""
    ranked = sorted({r.task for r in results if is_ranked(r.task)})
    columns = [task_column([r for r in results if r.task == task]) for task in ranked]
    identity = results[0].suite, results[0].suite_version, results[0].fingerprint, None
    return assemble_grid(identity, columns, [], sorted({r.seed for r in results}), results, failures)


def assemble_grid(
    identity: tuple[str, int, str, Suite | None],
    columns: list[Column],
    encodings: list[str],
    seeds: list[int],
    results: list[Result],
    failures: Failures,
) -> Grid:
    """Sort results and failures into cells.

    Arguments:
        identity: name, version and fingerprint of the suite, and the suite itself if it is available.
        results: in ascending order of seed.
    """
    runs: dict[tuple[str, str], tuple[Result, ...]] = {}
    for result in results:
        cell = result.task, result.encoding.name
        runs[cell] = (*runs.get(cell, ()), result)
    finished = {(r.task, r.encoding.name, r.seed) for r in results}
    failed = {run: failures[run] for run in sorted(failures) if run not in finished}
    tried = {r.encoding.name for r in results} | {encoding for _, encoding, _ in failed}
    encodings = [*(name for name in encodings if name in tried), *sorted(tried - set(encodings))]
    return Grid(*identity, tuple(columns), tuple(encodings), tuple(sorted(seeds)), runs, failed)


def task_column(results: list[Result]) -> Column:
    """The column of the (consistent) results of one task."""
    first = results[0]
    return Column(
        task=first.task,
        variant=first.variant,
        train_length=first.train_length,
        lengths=tuple(s.length for s in first.scores),
        chance=tuple(s.chance for s in first.scores),
        examples=min(s.count for s in first.scores),
        steps=max(r.steps for r in results),
    )


def is_ranked(task: str) -> bool:
    """Whether boards rank by a task; by one that is not in the catalogue too."""
    known = tasks.catalogue().get(task)
    return known is None or known.ranked


def refuse_contradictions(results: list[Result]) -> None:
    """Refuse results of one fingerprint that contradict each other.

    Raises:
        InputError: duplicate runs, or scores that cannot be compared; the message names the runs.
    """
    first: dict[str, Result] = {}
    seen: set[tuple[str, str, int]] = set()
    for result in results:
        run = result.task, result.encoding.name, result.seed
        if run in seen:
            raise InputError(f"{run_label(result)}: there are two results of this run; keep one")
        seen.add(run)
        if not (result.in_distribution and result.out_of_distribution):
            raise InputError(
                f"{run_label(result)}: expected scores up to L = {result.train_length} and past it, "
                f"got lengths {[s.length for s in result.scores]}"
            )
        other = first.setdefault(result.task, result)
        pair = f"{run_label(result)} and {run_label(other)}"
        if result.data_hash != other.data_hash:
            raise InputError(f"{pair} were tested on different examples (data_hash); run one again")
        if shared_conditions(result) != shared_conditions(other):
            raise InputError(f"{pair} differ in variant, L, test lengths or chance; run one again")


def shared_conditions(result: Result) -> tuple:
    """Conditions that two results of one task must share to be compared."""
    return result.variant, result.train_length, [(s.length, s.count, s.chance) for s in result.scores]


def run_label(result: Result) -> str:
    return f"result {result.path}"
