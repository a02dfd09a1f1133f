"""How much a board resolves: cells at floor and ceiling, pairs separated, rows in the first tier, agreement between seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from . import scores as st
from .orders import kendall_tau
from .rows import Cell, Classes, all_rows
from .scores import Scores
from .significance import ALPHA, separation_ps

FLOOR, CEILING = 0.02, 0.98
"""Cells under the one or over the other show no difference between encodings."""
SPLITS = 200


def exact_match(cell: Cell) -> Float[np.ndarray, " S"]:
    """The score of each run by exact match alone."""
    column = cell.column
    return st.run_scores(column.at, st.without_guessing(cell.exact, np.array(column.chance)), column.train_length)


def likelihood(cell: Cell) -> Float[np.ndarray, " S"]:
    """Likelihood of an answer token of each run past L: in 0 … 1, so that no task outweighs the others; 0 if it diverged."""
    return np.where([run.status == "diverged" for run in cell.runs], 0, np.exp(-cell.nll))


MEASURES: dict[str, Callable[[Cell], Float[np.ndarray, " S"]]] = {
    "the score": lambda cell: cell.scores,
    "exact match alone": exact_match,
    "token accuracy": lambda cell: cell.tokens,
    "the likelihood of a token": likelihood,
}
"""What separations are counted by: for each run, a number in 0 … 1."""


@dataclass(frozen=True)
class Resolution:
    """All rows of a board together; tiers and agreement are those of its first table."""

    extremes: Mapping[str, tuple[float, float]]
    """Task → shares of the cells (encoding, seed, test length past L) that score under ``FLOOR`` and over ``CEILING``; every
    encoding counts alike, however many seeds it has."""
    separated: Mapping[str, int]
    """Name of a measure → pairs separated by it; without those that some run lacks."""
    pairs: int
    """Pairs tested."""
    first: int
    """Rows of tier 1."""
    ranked: int
    agreement: float | None
    """Kendall's τ-b between the orders of two random halves of each cell's runs, mean over ``SPLITS`` splits."""
    agreement_first: float | None
    """The same within tier 1."""


def resolution(classes: Classes) -> Resolution | None:
    """None where nothing can be tested."""
    rows = all_rows(classes)
    tested = [row for row in rows if row.ps]
    if not tested:
        return None
    extremes = {}
    for task in rows[0].cells:
        cells = [row.cells[task] for row in rows if row.cells[task].runs]
        values = [cell.cells[:, cell.column.at > cell.column.train_length] for cell in cells]
        low, high = [(v < FLOOR).mean() for v in values], [(v > CEILING).mean() for v in values]
        extremes[task] = float(np.mean(low)), float(np.mean(high))
    separated = {}
    for name, measure in MEASURES.items():
        numbers = [[measure(cell) for cell in row.cells.values()] for row in tested]
        if not any(np.isnan(runs).any() for tasks in numbers for runs in tasks):
            separated[name] = int((separation_ps(numbers) <= ALPHA).sum())
    ranked = [row for row in next(iter(classes.values())) if row.ps]
    first = [row for row in ranked if row.tier == 1]
    return Resolution(
        extremes=extremes,
        separated=separated,
        pairs=len(tested) * (len(tested) - 1) // 2,
        first=len(first),
        ranked=len(ranked),
        agreement=split_half([row.scores for row in ranked]),
        agreement_first=split_half([row.scores for row in first]),
    )


def split_half(scores: Sequence[Scores], splits: int = SPLITS) -> float | None:
    """Agreement of two halves of the runs: see ``Resolution.agreement``. None for fewer than two encodings, or all tied.

    Arguments:
        scores: of each encoding, at least two runs a task. The smaller half has half of the runs, rounded down.
    """
    rng, halves = np.random.default_rng(0), np.zeros((2, splits, len(scores)))
    for split in range(splits if len(scores) > 1 else 0):
        for i, tasks in enumerate(scores):
            for runs in map(rng.permutation, tasks):
                halves[:, split, i] += runs[: len(runs) // 2].mean(), runs[len(runs) // 2 :].mean()
    found = kendall_tau(*halves)
    return float(np.nanmean(found)) if not np.isnan(found).all() else None
