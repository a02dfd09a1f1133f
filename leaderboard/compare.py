"""Two encodings side by side: the numbers. What they look like on a terminal stands in ``compare_text``."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit

from tasks import InputError, unknown

from . import inference, significance
from . import statistics as st
from .grid import Column, Grid
from .summary import Cell, Row, row


@dataclass(frozen=True)
class Duel:
    """Two encodings on one task. Numbers are None unless both have a run."""

    column: Column
    a: Cell
    b: Cell
    difference: tuple[float, float | None] | None
    """OOD exact match of A less that of B, and the half-width of its interval; see ``welch``."""
    improvement: float | None
    """Probability that a run of A scores above a run of B."""
    p: float | None
    """Of the permutation test on this task, with Holm's correction over the tasks that both have run."""


@dataclass(frozen=True)
class Comparison:
    """Two encodings over all tasks, and those numbers that take all tasks that both have run; None if there is none."""

    grid: Grid
    a: Row
    b: Row
    duels: tuple[Duel, ...]
    """One a task, in the order of the grid."""
    improvement: float | None
    interval: tuple[float, float] | None
    """Of ``improvement``; None also where a task has a single run."""
    difference: float | None
    """Mean score of A less that of B."""
    p: float | None
    """Of the permutation test on that difference, for this pair alone."""
    newest: Grid
    """Of the suite as it is now, or else the newest there is; ``grid``, unless A or B has no run there."""
    left_out: tuple[Grid, ...]
    """Grids of other fingerprints in which A or B has runs too."""

    @property
    def rows(self) -> tuple[Row, Row]:
        return self.a, self.b

    @property
    def met(self) -> list[Duel]:
        """On the tasks that both have run."""
        return [duel for duel in self.duels if duel.a.runs and duel.b.runs]


def compare(grids: Sequence[Grid], a: str, b: str) -> Comparison:
    """Compare two encodings on the first of some grids that has runs of both.

    Arguments:
        grids: of one suite, newest first, as ``collect`` gives them. Results of different grids never meet.
        a, b: encodings, as their results name them or in another spelling of that.

    Raises:
        InputError: an encoding without results, with the nearest match; one encoding twice; no grid with both.
    """
    suite = grids[0].name
    names = sorted({encoding for grid in grids for _, encoding in grid.runs})
    a, b = full_name(a, names, suite), full_name(b, names, suite)
    if a == b:
        raise InputError(f"expected two different encodings, got {a!r} twice")
    has = [({a, b} & {encoding for _, encoding in grid.runs}, grid) for grid in grids]
    both = [grid for found, grid in has if len(found) == 2]
    if not both:
        where = [f"{name!r} only of {', '.join(g.fingerprint for found, g in has if name in found)}" for name in (a, b)]
        raise InputError(f"no fingerprint of suite {suite} has results of both: there are results of {' and of '.join(where)}")
    grid = both[0]
    rows = row(grid, a), row(grid, b)
    duels = [duel(column, rows[0].cells[column.task], rows[1].cells[column.task]) for column in grid.columns]
    met = [d for d in duels if d.p is not None]
    ours, theirs = [d.a.scores for d in met], [d.b.scores for d in met]
    corrected = dict(zip([d.column.task for d in met], significance.holm([d.p or 0.0 for d in met]), strict=True))
    return Comparison(
        grid=grid,
        a=rows[0],
        b=rows[1],
        duels=tuple(replace(d, p=corrected.get(d.column.task)) for d in duels),
        improvement=st.improvement(ours, theirs) if met else None,
        interval=inference.improvement_interval(ours, theirs) if met else None,
        difference=st.overall(ours) - st.overall(theirs) if met else None,
        p=significance.permutation_p(ours, theirs) if met else None,
        newest=grids[0],
        left_out=tuple(other for found, other in has if found and other is not grid),
    )


def full_name(name: str, names: Sequence[str], suite: str) -> str:
    """The encoding under which results are filed; ``rope(base=500000)`` is ``rope(base=500000.0)`` there.

    Raises:
        InputError: it has no results, or is none.
    """
    if name in names:
        return name
    from bench import encodings  # loads torch, which a name that has results does not need

    try:
        known = encodings.get(name).info.name
    except InputError:
        raise unknown(f"encoding with results on suite {suite}", name, names) from None
    if known not in names:
        hint = f"lprime run {suite} --encoding {shlex.quote(known)}"
        raise InputError(f"encoding {name!r} has no results on suite {suite}; run `{hint}` first")
    return known


def duel(column: Column, a: Cell, b: Cell) -> Duel:
    """Two cells of one task; the p is not corrected yet."""
    if not (a.runs and b.runs):
        return Duel(column, a, b, None, None, None)
    past = [st.out_of_distribution(column.at, cell.exact, column.train_length) for cell in (a, b)]
    ours, theirs = [a.scores], [b.scores]
    return Duel(column, a, b, welch(*past), st.improvement(ours, theirs), significance.permutation_p(ours, theirs))


def welch(x: Float[np.ndarray, " X"], y: Float[np.ndarray, " Y"]) -> tuple[float, float | None]:
    """Difference of the means of two samples of unlike spread, and the half-width of its interval (Welch 1947).

    Returns:
        The half-width is None where a sample has a single value.
    """
    difference = float(x.mean() - y.mean())
    if min(len(x), len(y)) < 2:
        return difference, None
    parts = np.array([x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)])
    if not parts.any():
        return difference, 0.0
    freedom = parts.sum() ** 2 / (parts**2 / [len(x) - 1, len(y) - 1]).sum()
    return difference, float(stdtrit(freedom, (1 + st.LEVEL) / 2) * np.sqrt(parts.sum()))
