"""Does the order hold? The order of the encodings under each condition of a suite, compared with their order in the suite.

Both orders are of the overall score. Shapes: E encodings, S seeds, T tasks, R learning rates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import fdtrc

from bench.result import Result
from leaderboard.data.grid import Grid, once_per_grid

from .orders import OrderComparison, Separations, Side, comparison, separations
from .rows import Cell
from .scores import FUZZ, in_distribution
from .summary import summarise, summarise_cell

SUITE = ""
"""The suite itself, among the names of its conditions."""
FEWEST = 3
"""Encodings from which on the orders of two suites are compared."""
RATE = "learning_rate-"
"""Start of the names of conditions with another learning rate."""


class Interaction(NamedTuple):
    """Shares of the variance of overall scores over encodings, learning rates and seeds; they sum to at most 1."""

    encoding: float
    rate: float
    both: float
    """The interaction: by which the effect of the learning rate differs between encodings."""
    p: float
    """Of the F test of no interaction."""


@dataclass(frozen=True)
class Tuned:
    """Every encoding at the learning rate with the lowest loss at l ≤ L."""

    rates: Mapping[str, str]
    """Encoding → condition."""
    comparison: OrderComparison
    """With the suite's learning rate for all, over the same seeds."""
    by_answers: bool
    """Whether the loss is that of test answers at l ≤ L; otherwise it is the last training loss."""
    seeds: tuple[int, ...]
    """Of the losses and of the scores: those that all rates have."""

    @property
    def changed(self) -> int:
        """Number of encodings that take another learning rate than the suite's."""
        return sum(rate != SUITE for rate in self.rates.values())

    def at_largest(self, rates: Mapping[str, float]) -> int:
        """Number of encodings that take the largest of the learning rates, so that a larger one may be better still.

        Arguments:
            rates: condition → learning rate, ``SUITE`` included.
        """
        largest = max(rates, key=lambda rate: rates[rate])
        return 0 if largest == SUITE else sum(rate == largest for rate in self.rates.values())


@dataclass(frozen=True)
class Robustness:
    """All comparisons of a board."""

    comparisons: tuple[OrderComparison, ...]
    seeds: tuple[int, ...]
    """Seeds of the suite that all encodings compared have."""
    finished: Mapping[str, tuple[int, int]]
    """Condition → number of finished runs of its own encodings, and of its seeds that all these have on every task."""
    asked: int
    """Number of runs that each condition should have."""
    rates: Mapping[str, float]
    """Condition → learning rate, of those that are compared; ``SUITE`` first."""
    interaction: Interaction | None
    tuned: Tuned | None

    @property
    def by_conditions(self) -> dict[tuple[str, ...], list[str]]:
        """Conditions → the encodings compared in just these: first those in all comparisons, then those in some."""
        found: dict[tuple[str, ...], list[str]] = {tuple(one.condition for one in self.comparisons): []}
        for name in dict.fromkeys(name for one in self.comparisons for name in one.encodings):
            found.setdefault(tuple(one.condition for one in self.comparisons if name in one.encodings), []).append(name)
        return found


@once_per_grid
def robustness(grid: Grid) -> Robustness | None:
    """Compare a grid with its conditions.

    A condition counts from its first whole seed on, which all its encodings have on all tasks: an order of some of them says
    nothing about the others. Further encodings of the first table are compared where they have all the condition's seeds.

    Returns:
        None if no condition has a whole seed, or the suite itself has none.
    """
    if not (grid.suite and grid.suite.vary and grid.conditions):
        return None
    expected, asked_seeds = next(iter(grid.suite.conditions.values())).encoding_names, grid.suite.vary.seeds
    names = [name for name in expected if name in grid.encodings]
    base = list(whole_seeds(grid, names))
    whole = {condition: list(seeds) for condition, other in grid.conditions.items() if (seeds := whole_seeds(other, names))}
    if not (len(names) > 1 and base and whole):
        return None
    others = [row.name for row in summarise(grid).get("standard", ()) if row.name not in expected]
    others = [name for name in others if whole_seeds(grid, [name]).keys() >= set(base)]
    compared_in = {
        condition: [*names, *(n for n in others if whole_seeds(grid.conditions[condition], [n]).keys() >= {*asked_seeds})]
        for condition in whole
    }
    tried = [condition for condition in whole if condition.startswith(RATE)]
    shared = set(base)
    enough = min(2, max((len(shared & set(whole[condition])) for condition in tried), default=0))
    for condition in sorted(tried, key=lambda one: -len(whole[one])):
        if len(shared & set(whole[condition])) < enough:
            tried.remove(condition)  # one with fewer seeds would leave the others too few to compare
        else:
            shared &= set(whole[condition])

    def finished(condition: str) -> int:
        runs = grid.conditions[condition].runs if condition in grid.conditions else {}
        cells = [runs.get((column.task, name), ()) for column in grid.columns for name in expected]
        return sum(run.seed in asked_seeds for cell in cells for run in cell)

    @cache
    def suite_runs(*compared: str) -> tuple[Side, Separations | None]:
        """The runs in the suite, and which pairs the test separates; None for a single seed."""
        runs = whole_seeds(grid, compared)
        ours = side({seed: runs[seed] for seed in base})
        return ours, separations(ours.scores) if len(base) > 1 else None

    def compare(condition: str, compared: Sequence[str]) -> OrderComparison:
        ours, separated = suite_runs(*compared)
        return comparison(condition, compared, ours, side(whole_seeds(grid.conditions[condition], compared)), separated)

    rates, common = [SUITE, *tried], sorted(shared)
    rated = [name for name in [*names, *others] if all(name in compared_in[rate] for rate in tried)]
    values = None
    if common and tried:
        grids = [grid, *(grid.conditions[rate] for rate in tried)]
        values = np.stack([stacked(whole_seeds(one, rated), common) for one in grids], 1)
    return Robustness(
        comparisons=tuple(compare(condition, compared) for condition, compared in compared_in.items()),
        seeds=tuple(base),
        finished={c: (finished(c), len(whole.get(c, ()))) for c in grid.suite.conditions},
        asked=len(expected) * len(asked_seeds) * len(grid.columns),
        rates={c: (grid.suite.conditions[c] if c else grid.suite).recipe.learning_rate for c in rates},
        interaction=None if values is None else interaction(values[..., 0].mean(-1)),
        tuned=None if values is None else tune(rated, rates, common, values, suite_runs(*rated)[1]),
    )


@once_per_grid
def order_elsewhere(grid: Grid) -> tuple[OrderComparison, ...]:
    """Compare a grid with those of other suites: encodings of both first tables that have run on all tasks of both."""
    found = []
    for name, other in grid.others.items():
        first, second = ([row.name for row in summarise(one).get("standard", ())] for one in (grid, other))
        names = [one for one in first if one in second and whole_seeds(grid, [one]) and whole_seeds(other, [one])]
        seeds, other_seeds = whole_seeds(grid, names), whole_seeds(other, names)
        if len(names) >= FEWEST and seeds and other_seeds:
            ours = side(seeds)
            separated = separations(ours.scores) if len(seeds) > 1 else None
            found.append(comparison(name, names, ours, side(other_seeds), separated))
    return tuple(found)


SeedRuns = Mapping[int, Float[np.ndarray, "E T 4"]]
"""Seed → for each encoding's run on each task its score, its exact match at l ≤ L, the loss of its answers at l ≤ L (NaN if
unknown) and its last training loss."""


def whole_seeds(grid: Grid, encodings: Sequence[str]) -> SeedRuns:
    """The runs of those seeds that all the encodings have on every task."""
    cells = [[summarise_cell(grid, column, name) for column in grid.columns] for name in encodings]
    rows = [[by_seed(cell) for cell in row] for row in cells]
    seeds = set.intersection(*(set(cell) for row in rows for cell in row)) if rows else set()
    return {seed: np.array([[cell[seed] for cell in row] for row in rows]) for seed in sorted(seeds)}


def by_seed(cell: Cell) -> dict[int, tuple[float, ...]]:
    """The numbers of ``SeedRuns``."""
    inside = in_distribution(cell.column.at, cell.exact, cell.column.train_length)
    return {run.seed: (*numbers, *losses(run)) for run, *numbers in zip(cell.runs, cell.scores, inside, strict=True)}


def losses(run: Result) -> tuple[float, float]:
    """Loss of a run's answers at l ≤ L (NaN if unknown), and its last training loss; infinite if it diverged."""
    if run.status == "diverged":
        return np.inf, np.inf
    answers = [score.nll for score in run.in_distribution]
    known = [float(nll) for nll in answers if nll is not None]
    return float(np.mean(known)) if len(known) == len(answers) else np.nan, run.loss[-1][1] if run.loss else np.nan


def stacked(runs: SeedRuns, seeds: Sequence[int]) -> Float[np.ndarray, "E S T 4"]:
    return np.stack([runs[seed] for seed in seeds], 1)


def side(runs: SeedRuns) -> Side:
    """The runs of all seeds."""
    return as_side(stacked(runs, list(runs)))


def as_side(values: Float[np.ndarray, "E S T 4"]) -> Side:
    return Side(list(values[..., 0]), values[..., 1].mean(1))


def interaction(scores: Float[np.ndarray, "E R S"]) -> Interaction | None:
    """Two-way analysis of variance with replication, with ω² as shares (Hays 1963: unlike η², they are not inflated by the
    spread of few seeds), floored at 0; None without at least two encodings, rates and seeds."""
    encodings, rates, seeds = scores.shape
    if min(scores.shape) < 2:
        return None
    mean, cells = scores.mean(), scores.mean(2)
    rows, columns = cells.mean(1) - mean, cells.mean(0) - mean
    both = cells - mean - rows[:, None] - columns
    squares = np.array([rates * seeds * (rows**2).sum(), encodings * seeds * (columns**2).sum(), seeds * (both**2).sum()])
    freedom = np.array([encodings - 1, rates - 1, (encodings - 1) * (rates - 1)])
    rest, rest_freedom = ((scores - cells[..., None]) ** 2).sum(), encodings * rates * (seeds - 1)
    error, total = rest / rest_freedom, squares.sum() + rest
    if total < FUZZ**2:
        return None
    shares = np.maximum(squares - freedom * error, 0) / (total + error)
    p = fdtrc(freedom[2], rest_freedom, squares[2] / freedom[2] / error) if error > FUZZ**2 else float(squares[2] < FUZZ**2)
    return Interaction(float(shares[0]), float(shares[1]), float(shares[2]), float(p))


def tune(
    names: Sequence[str],
    rates: Sequence[str],
    seeds: Sequence[int],
    values: Float[np.ndarray, "E R S T 4"],
    separated: Separations | None,
) -> Tuned:
    """Take for each encoding the learning rate with the lowest loss, mean over tasks and seeds; the choice is not resampled.

    Arguments:
        rates: conditions, ``SUITE`` first.
        values: the runs of these seeds, by which the rate is chosen.
        separated: see ``comparison``.
    """
    losses = values[..., 2:].mean((2, 3))
    by_answers = not np.isnan(losses[..., 0]).any()
    best = np.nan_to_num(losses[..., 0 if by_answers else 1], nan=np.inf).argmin(1)
    chosen = {name: rates[place] for name, place in zip(names, best, strict=True)}
    ours, theirs = as_side(values[:, 0]), as_side(values[np.arange(len(names)), best])
    # Where the rate is the suite's the runs are the same array: tau_interval resamples them once.
    scores = [there if place else here for place, here, there in zip(best, ours.scores, theirs.scores, strict=True)]
    compared = comparison(SUITE, names, ours, theirs._replace(scores=scores), separated)
    return Tuned(chosen, compared, bool(by_answers), tuple(seeds))
