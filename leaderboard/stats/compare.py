"""Comparison of two encodings, as numbers; ``leaderboard.render.compare_text`` prints it."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from bench.suites.suite import suite_command
from leaderboard.data.grid import Column, Grid
from tasks import InputError, unknown

from . import bootstrap
from . import scores as st
from .rows import Cell, Row, all_rows
from .summary import summarise


@dataclass(frozen=True)
class TaskComparison:
    """Two encodings on one task. Numbers are None unless both have a run."""

    column: Column
    a: Cell
    b: Cell
    difference: tuple[float, float | None] | None
    """Score of A minus that of B, and the half-width of its interval; see ``welch``."""
    improvement: float | None
    """Probability that a run of A scores above a run of B."""


@dataclass(frozen=True)
class EncodingComparison:
    """Two encodings over all tasks. Numbers over the common tasks, which both have run, are None without any."""

    grid: Grid
    a: Row
    b: Row
    by_task: tuple[TaskComparison, ...]
    """One per task, in the order of the grid."""
    improvement: float | None
    interval: tuple[float, float] | None
    """Interval of ``improvement``; None also if a task has a single run."""
    difference: float | None
    """Score of A minus that of B."""
    p: float | None
    """p of the board, adjusted for all its pairs; None if the pair cannot be tested: see ``summary.with_ps``."""
    newest: Grid
    """Grid of the current suite, otherwise the newest; the same as ``grid`` unless A or B has no run there."""
    left_out: tuple[Grid, ...]
    """Grids of other fingerprints in which A or B also has runs."""

    @property
    def rows(self) -> tuple[Row, Row]:
        return self.a, self.b

    def as_dict(self) -> dict[str, Any]:
        """The comparison as plain data; None for what is not known."""

        def overall(row: Row) -> dict[str, Any]:
            return {"name": row.name, "tier": row.tier, "score": row.score, "interval": row.interval}

        def on_task(cell: Cell) -> dict[str, Any]:
            return {
                "score": cell.score and cell.score[0],
                "half_width": cell.score and cell.score[1],
                "in_distribution": cell.in_distribution,
                "seeds": cell.seeds,
                "exact": dict(zip(cell.column.lengths, map(float, cell.by_length), strict=True)) if cell.runs else None,
            }

        return {
            "suite": self.grid.name,
            "version": self.grid.version,
            "fingerprint": self.grid.fingerprint,
            "a": overall(self.a),
            "b": overall(self.b),
            "tasks": {
                one.column.task: {
                    "a": on_task(one.a),
                    "b": on_task(one.b),
                    "difference": one.difference,
                    "improvement": one.improvement,
                }
                for one in self.by_task
            },
            "improvement": self.improvement,
            "improvement_interval": self.interval,
            "difference": self.difference,
            "p": self.p,
        }

    @property
    def common(self) -> list[TaskComparison]:
        """Comparisons on the tasks that both have run."""
        return [one for one in self.by_task if one.a.runs and one.b.runs]


def compare_encodings(grids: Sequence[Grid], a: str, b: str) -> EncodingComparison:
    """Compare two encodings on the first grid that has runs of both.

    Arguments:
        grids: of one suite, newest first, as from ``collect``. Results of different grids are never compared.
        a, b: encodings, by the name in their results or another spelling of it.

    Raises:
        InputError: an encoding without results, with the nearest match; one encoding twice; no grid with both.
    """
    suite = grids[0].name
    names = sorted({encoding for grid in grids for _, encoding in grid.runs})
    a, b = full_name(a, names, suite), full_name(b, names, suite)
    if a == b:
        raise InputError(f"expected two different encodings, got {a!r} twice")
    present = [({a, b} & {encoding for _, encoding in grid.runs}, grid) for grid in grids]
    grid = next((grid for names, grid in present if len(names) == 2), None)
    if grid is None:
        where = [f"{name!r} only of {', '.join(g.fingerprint for names, g in present if name in names)}" for name in (a, b)]
        raise InputError(f"no fingerprint of suite {suite} has results of both: there are results of {' and of '.join(where)}")
    board = {row.name: row for row in all_rows(summarise(grid))}  # p depends on all pairs of the board
    rows = board[a], board[b]
    by_task = [compare_cells(column, rows[0].cells[column.task], rows[1].cells[column.task]) for column in grid.columns]
    common = [one for one in by_task if one.improvement is not None]
    ours, theirs = [one.a.scores for one in common], [one.b.scores for one in common]
    return EncodingComparison(
        grid=grid,
        a=rows[0],
        b=rows[1],
        by_task=tuple(by_task),
        improvement=st.probability_of_improvement(ours, theirs) if common else None,
        interval=bootstrap.improvement_interval(ours, theirs) if common else None,
        difference=st.mean_score(ours) - st.mean_score(theirs) if common else None,
        p=rows[0].ps.get(b),
        newest=grids[0],
        left_out=tuple(other for names, other in present if names and other is not grid),
    )


def full_name(name: str, names: Sequence[str], suite: str) -> str:
    """The name under which an encoding's results are stored, such as ``rope(base=500000.0)`` for ``rope(base=500000)``.

    Raises:
        InputError: not an encoding, or one without results.
    """
    if name in names:
        return name
    from bench.plugins.registry import full_name as stored_name

    try:
        known = stored_name(name)
    except InputError:
        known = f"{name}.py"
        if not os.path.isfile(known):
            raise unknown(f"encoding with results on suite {suite}", name, names) from None
    if known not in names:
        command = suite_command("run", suite, "--encoding", known)
        raise InputError(f"encoding {name!r} has no results on suite {suite}; run `{command}` first")
    return known


def compare_cells(column: Column, a: Cell, b: Cell) -> TaskComparison:
    if not (a.runs and b.runs):
        return TaskComparison(column, a, b, None, None)
    improvement = st.probability_of_improvement([a.scores], [b.scores])
    return TaskComparison(column, a, b, welch(a.scores, b.scores), improvement)


def welch(x: Float[np.ndarray, " X"], y: Float[np.ndarray, " Y"]) -> tuple[float, float | None]:
    """Difference of the means of two samples and the half-width of its interval, by Welch's t-test (unequal variances).

    Returns:
        The half-width is None if a sample has a single value.
    """
    from scipy.stats import ttest_ind

    difference = float(x.mean() - y.mean())
    if min(len(x), len(y)) < 2:
        return difference, None
    if np.ptp(x) == np.ptp(y) == 0:
        return difference, 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # scipy's "precision loss" for a constant sample
        low, high = ttest_ind(x, y, equal_var=False).confidence_interval(st.LEVEL)
    return difference, float(high - low) / 2
