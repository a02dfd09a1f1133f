"""What the board knows of an encoding: one ``Row`` per encoding, with one ``Cell`` per task. Shapes: S runs, N lengths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Float

from bench.result import EncodingRecord, Result
from leaderboard.data.grid import Column

from . import scores as st


@dataclass(frozen=True)
class Cell:
    """One encoding on one task. Numbers are None without a run."""

    column: Column
    runs: tuple[Result, ...]
    expected: tuple[int, ...]
    """Seeds of the suite."""
    failed: tuple[int, ...]
    """Seeds that failed and have no result."""
    exact: Float[np.ndarray, "S N"]
    """Exact match of each run at each test length."""
    cells: Float[np.ndarray, "S N"]
    """Score of each run at each test length: see ``scores.cell_scores``."""
    scores: Float[np.ndarray, " S"]
    """Score of each run, over all lengths l > L."""
    score: tuple[float, float | None] | None
    """Mean score over seeds and half-width of its interval, for which two runs say too little."""
    tokens: Float[np.ndarray, " S"]
    """Token accuracy of each run past L, averaged like its score; guessing taken out where its level is known."""
    nll: Float[np.ndarray, " S"]
    """Negative log-likelihood of an answer token past L, averaged alike; NaN where unknown."""
    in_distribution: float | None
    """Mean exact match over runs and test lengths l ≤ L."""
    reach: st.Reach | None

    @property
    def state(self) -> Literal["done", "failed", "missing"]:
        return "done" if self.runs else "failed" if self.failed else "missing"

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    @property
    def absent(self) -> tuple[int, ...]:
        """Missing seeds: expected, without a result or a failure."""
        return tuple(s for s in self.expected if s not in self.seeds and s not in self.failed)

    @property
    def asked(self) -> int:
        """Number of seeds: expected, finished or failed."""
        return len({*self.expected, *self.seeds, *self.failed})

    @property
    def flagged(self) -> bool:
        return self.in_distribution is not None and not st.passes_gate(self.in_distribution)

    @property
    def by_length(self) -> Float[np.ndarray, " N"]:
        """Exact match at each test length, mean over seeds."""
        return self.exact.mean(0)


@dataclass(frozen=True)
class Versus:
    """Comparison of a row with another."""

    name: str
    """Name of the other row."""
    improvement: float
    """Probability that a run of the row scores above a run of the other."""
    interval: tuple[float, float] | None
    """Interval of ``improvement``; None if either has a single run on a task."""
    p: float
    """p of ``significance.separation_ps``, adjusted for all pairs of encodings on the board."""
    separated: Literal["above", "below"] | None
    """Position relative to the other row, if the test separates them."""


@dataclass(frozen=True)
class Row:
    """One encoding over all tasks. Means over tasks are None unless every task has a run."""

    name: str
    record: EncodingRecord | None
    """Record in its latest run; None without any run."""
    ranking: str
    cells: Mapping[str, Cell]
    iqm: float | None
    """Interquartile mean of the scores of all runs."""
    iqm_interval: tuple[float, float] | None
    """None also if a task has a single run, like every other interval."""
    score: float | None
    """Mean over tasks of the mean score over runs: what rows are ordered by, and what is tested."""
    interval: tuple[float, float] | None
    """Interval of ``score``."""
    reach: st.Reach | None
    """Geometric mean over tasks."""
    in_distribution: float | None
    """Mean over tasks."""
    parameters: tuple[int, int] | None
    """Parameters of the encoding alone: minimum and maximum over tasks (some tables grow with L or L′)."""
    step_time: float | None
    """Relative to NoPE: measured side by side if available, otherwise from the timings of the runs."""
    step_time_past: float | None
    """Step time relative to NoPE at the longest length measured; None if not measured."""
    memory: float | None
    """Peak memory of a training step past L relative to NoPE; None if not measured."""
    busy: bool
    """Whether all step times were taken while the machine was busy with something else."""
    tier: int | None = None
    """None where nothing could be tested: see ``significance.tiers``."""
    places: tuple[int, int] | None = None
    """The best and the worst place among the tested rows of its table that the tests leave open."""
    below: Versus | None = None
    """Comparison with the next tested row."""
    against: Versus | None = None
    """Comparison with ``ANCHOR``."""
    ps: Mapping[str, float] = field(default_factory=dict)
    """Name of each row that it was compared with, of any table → p, as in ``Versus``."""

    @property
    def scores(self) -> list[Float[np.ndarray, " S"]]:
        return [cell.scores for cell in self.cells.values()]

    @property
    def runs(self) -> list[Result]:
        return [run for cell in self.cells.values() for run in cell.runs]

    @property
    def flagged(self) -> bool:
        return any(cell.flagged for cell in self.cells.values())

    @property
    def second_hand(self) -> bool:
        return self.record is not None and self.record.source == "second-hand"

    @property
    def complete(self) -> bool:
        return self.score is not None


Classes = Mapping[str, Sequence[Row]]
"""Ranking class → its rows, as ``summarise`` returns them."""


def all_rows(classes: Classes) -> list[Row]:
    """Rows in the order of the tables."""
    return [row for rows in classes.values() for row in rows]
