"""What the tables show, as numbers: one ``Row`` an encoding, one ``Cell`` a task of it. Formats nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from bench.results import EncodingRecord, Result

from . import statistics as st
from .grid import Column, Grid

BASE = "nope"
"""The encoding whose step time is the unit."""
CLASSES = ("standard", "longer", "task-aware")
"""Ranking classes in the order of their tables; others follow by name."""


@dataclass(frozen=True)
class Cell:
    """One encoding on one task. Numbers are None where there is no run."""

    column: Column
    runs: tuple[Result, ...]
    expected: tuple[int, ...]
    """Seeds that should be there."""
    failed: tuple[int, ...]
    exact: Float[np.ndarray, "S N"]
    scores: Float[np.ndarray, " S"]
    """Chance-corrected OOD score of each run."""
    ood: tuple[float, float | None] | None
    """OOD exact match: mean over seeds and half-width."""
    in_distribution: float | None
    reach: int | None

    @property
    def state(self) -> Literal["done", "failed", "missing"]:
        return "done" if self.runs else "failed" if self.failed else "missing"

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def absent(self) -> tuple[int, ...]:
        """Expected seeds without result that did not fail either."""
        return tuple(s for s in self.expected if s not in self.seeds and s not in self.failed)

    @property
    def asked(self) -> int:
        """Seeds that are there or should be."""
        return len({*self.expected, *self.seeds, *self.failed})

    @property
    def flagged(self) -> bool:
        return self.in_distribution is not None and not st.passes_gate(self.in_distribution)

    @property
    def by_length(self) -> Float[np.ndarray, " N"]:
        """Exact match at each test length, mean over seeds."""
        return self.exact.mean(0)


@dataclass(frozen=True)
class Row:
    """One encoding over all tasks. What is a mean over tasks is None unless every task has a run."""

    name: str
    record: EncodingRecord | None
    """What its last run said of it; None without any run."""
    ranking: str
    cells: Mapping[str, Cell]
    score: float | None
    interval: tuple[float, float] | None
    """Of the score; None also where a task has a single run."""
    in_distribution: float | None
    parameters: tuple[int, int] | None
    """Of the encoding alone: fewest and most over the tasks (tables grow with L or L′)."""
    step_time: float | None
    """Times NoPE's."""
    rank: int | None = None

    @property
    def flagged(self) -> bool:
        return any(cell.flagged for cell in self.cells.values())

    @property
    def complete(self) -> bool:
        return self.score is not None


def summarise(grid: Grid) -> dict[str, list[Row]]:
    """Ranking class → its rows: ranked ones first, best first and ties by name, then the incomplete ones by name."""
    classes: dict[str, list[Row]] = {}
    for encoding in grid.encodings:
        one = row(grid, encoding)
        classes.setdefault(one.ranking, []).append(one)
    order = [c for c in CLASSES if c in classes] + sorted(set(classes) - set(CLASSES))
    return {name: ranked(classes[name]) for name in order}


def ranked(rows: list[Row]) -> list[Row]:
    whole = [(r, r.score) for r in rows if r.score is not None]
    ranks = st.ranks([score for _, score in whole])
    first = [replace(r, rank=rank) for (r, _), rank in zip(whole, ranks, strict=True)]
    return sorted(first, key=lambda r: (r.rank, r.name)) + sorted((r for r in rows if not r.complete), key=lambda r: r.name)


def row(grid: Grid, encoding: str) -> Row:
    cells = {column.task: cell(grid, column, encoding) for column in grid.columns}
    runs = [run for c in cells.values() for run in c.runs]
    last = max(runs, key=lambda r: (r.finished, r.task, r.seed), default=None)
    parameters = [run.parameters.encoding for run in runs]
    complete = all(c.runs for c in cells.values())
    scores = [c.scores for c in cells.values()]
    return Row(
        name=encoding,
        record=last.encoding if last else None,
        ranking=ranking_class(runs, last),
        cells=cells,
        score=st.overall(scores) if complete else None,
        interval=st.overall_interval(scores) if complete else None,
        in_distribution=float(np.mean([c.in_distribution for c in cells.values()])) if complete else None,
        parameters=(min(parameters), max(parameters)) if parameters else None,
        step_time=st.relative_time(step_times(grid, encoding), step_times(grid, BASE)),
    )


def ranking_class(runs: list[Result], last: Result | None) -> str:
    """What the encoding declares, except that nobody who saw lengths past L in training is ``standard``."""
    declared = last.encoding.ranking if last else "standard"
    saw_longer = any(run.longest_seen > run.train_length for run in runs)
    return "longer" if declared == "standard" and saw_longer else declared


def cell(grid: Grid, column: Column, encoding: str) -> Cell:
    runs, exact = grid.runs.get((column.task, encoding), ()), grid.exact(column.task, encoding)
    failed = tuple(seed for task, name, seed in grid.failures if (task, name) == (column.task, encoding))
    at, train_length = column.at, column.train_length
    return Cell(
        column=column,
        runs=runs,
        expected=grid.seeds,
        failed=failed,
        exact=exact,
        scores=st.score(at, exact, np.array(column.chance), train_length) if runs else np.zeros(0),
        ood=st.mean_interval(st.out_of_distribution(at, exact, train_length)) if runs else None,
        in_distribution=float(st.in_distribution(at, exact, train_length).mean()) if runs else None,
        reach=st.reach(at, exact) if runs else None,
    )


def step_times(grid: Grid, encoding: str) -> list[list[float]]:
    """For each task, milliseconds a step of each run."""
    return [[run.timings.step_ms for run in grid.runs.get((c.task, encoding), ())] for c in grid.columns]
