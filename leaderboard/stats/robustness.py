"""Does the order hold? The order of the encodings under each condition of a suite, compared with their order in the suite.

Both orders are of the overall score, over the same encodings and seeds. Shapes: E encodings, S seeds, T tasks, R learning
rates, B replicates; the number of seeds may differ by encoding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import fdtrc

from bench.result import Result
from leaderboard.data.grid import Grid

from . import scores as st
from .bootstrap import TAILS, Interval
from .scores import FUZZ
from .summary import summarise_cell

REPLICATES = 5_000
BASE = ""
"""Name of the suite itself among its conditions."""
RATE = "learning_rate-"
"""Start of the names of conditions with another learning rate."""

Runs = Sequence[Float[np.ndarray, "S T"]]
"""For each encoding, the scores of its runs."""


class Move(NamedTuple):
    """How an encoding's place changes."""

    encoding: str
    before: int
    after: int
    change: float
    """Of its overall score."""


@dataclass(frozen=True)
class Comparison:
    """The overall scores under one condition and in the suite itself."""

    condition: str
    encodings: tuple[str, ...]
    base: Float[np.ndarray, " E"]
    scores: Float[np.ndarray, " E"]
    tau: float
    """Kendall's τ-b of the two; NaN if all encodings are tied."""
    interval: Interval | None
    """None if an encoding has a single seed."""
    again: tuple[float, Interval] | None
    """τ between two repetitions of the suite itself, with other seeds and as many of them: mean and interval."""
    runs: int
    """Number of runs under the condition that count: those of encodings and seeds with a run on every task, here and in the
    suite."""

    @property
    def holds(self) -> bool | None:
        """Whether the order changes no more than other seeds alone may change it. None if that cannot be said: it is unknown,
        or other seeds may give an unrelated order."""
        low = self.again[1][0] if self.again else np.nan
        return self.tau > low - FUZZ if low > FUZZ and not np.isnan(self.tau) else None

    @property
    def moves(self) -> list[Move]:
        """By places, then by score, largest first."""
        before, after = st.competition_ranks(list(self.base)), st.competition_ranks(list(self.scores))
        moves = map(Move, self.encodings, before, after, (self.scores - self.base).tolist())
        return sorted(moves, key=lambda m: (-abs(m.after - m.before), -abs(m.change), m.encoding))


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
    comparison: Comparison
    by_answers: bool
    """Whether the loss is that of test answers at l ≤ L; otherwise it is the last training loss."""


@dataclass(frozen=True)
class Robustness:
    """All comparisons of a board."""

    comparisons: tuple[Comparison, ...]
    missing: tuple[str, ...]
    """Conditions without two encodings with results on all tasks."""
    seeds: tuple[int, ...]
    asked: int
    """Number of runs that each condition should have."""
    rates: int
    """Number of learning rates, the suite's own included."""
    interaction: Interaction | None
    tuned: Tuned | None


def robustness(grid: Grid) -> Robustness | None:
    """Compare a grid with its conditions; None if none of them has two encodings with results on all tasks."""
    if not (grid.suite and grid.suite.vary and grid.conditions):
        return None
    encodings, seeds = next(iter(grid.suite.conditions.values())).encoding_names, grid.suite.vary.seeds
    base = {name: whole_seeds(grid, name, seeds) for name in encodings}
    found = {c: {name: whole_seeds(other, name, seeds) for name in encodings} for c, other in grid.conditions.items()}
    comparisons = [compare(condition, base, runs) for condition, runs in found.items()]
    if not (shown := tuple(one for one in comparisons if len(one.encodings) > 1)):
        return None
    rates, names, values = rate_values({BASE: base} | {c: runs for c, runs in found.items() if c.startswith(RATE)})
    return Robustness(
        comparisons=shown,
        missing=tuple(c for c in grid.suite.conditions if c not in {one.condition for one in shown}),
        seeds=tuple(seeds),
        asked=len(encodings) * len(seeds) * len(grid.columns),
        rates=len(rates),
        interaction=interaction(values[..., 0].mean(-1)) if names else None,
        tuned=tune(rates, names, values),
    )


SeedRuns = Mapping[int, Float[np.ndarray, "T 3"]]
"""Seed → score, loss of the answers at l ≤ L (NaN if unknown) and last training loss of its run on each task."""


def whole_seeds(grid: Grid, encoding: str, seeds: Sequence[int]) -> SeedRuns:
    """The runs of an encoding, for those of the seeds that have a run on every task."""
    tasks = []
    for column in grid.columns:
        cell = summarise_cell(grid, column, encoding)
        tasks.append({r.seed: (score, *losses(r)) for r, score in zip(cell.runs, cell.scores, strict=True)})
    return {seed: np.array([runs[seed] for runs in tasks]) for seed in seeds if all(seed in runs for runs in tasks)}


def losses(run: Result) -> tuple[float, float]:
    """Loss of a run's answers at l ≤ L (NaN if unknown), and its last training loss; infinite if it diverged."""
    if run.status == "diverged":
        return np.inf, np.inf
    answers = [getattr(score, "nll", None) for score in run.in_distribution]
    known = [float(nll) for nll in answers if nll is not None]
    return float(np.mean(known)) if len(known) == len(answers) else np.nan, run.loss[-1][1] if run.loss else np.nan


def stacked(runs: SeedRuns, seeds: Sequence[int]) -> Float[np.ndarray, "S T 3"]:
    return np.stack([runs[seed] for seed in seeds])


def compare(condition: str, base: Mapping[str, SeedRuns], other: Mapping[str, SeedRuns]) -> Comparison:
    """Compare the encodings with common seeds, over these."""
    common = {name: [seed for seed in base[name] if seed in other[name]] for name in base}
    names = [name for name, seeds in common.items() if seeds]
    ours, theirs = ([stacked(side[name], common[name])[..., 0] for name in names] for side in (base, other))
    return comparison(condition, names, ours, theirs, [stacked(base[name], list(base[name]))[..., 0] for name in names])


def comparison(condition: str, names: Sequence[str], ours: Runs, theirs: Runs, all_ours: Runs) -> Comparison:
    """Compare their runs with ours.

    Arguments:
        all_ours: our runs of further seeds too, which show what other seeds change.
    """
    before, after = overall(ours), overall(theirs)
    interval = found[1] if (found := resampled_tau(ours, theirs)) else None
    again = resampled_tau(all_ours, all_ours, [len(scores) for scores in theirs])
    tau, runs = float(kendall_tau(before, after)), sum(scores.size for scores in theirs)
    return Comparison(condition, tuple(names), before, after, tau, interval, again, runs)


def overall(runs: Runs) -> Float[np.ndarray, " E"]:
    """Overall score of each encoding."""
    return np.array([st.mean_score(list(scores.T)) for scores in runs])


def kendall_tau(x: Float[np.ndarray, "*B E"], y: Float[np.ndarray, "*B E"]) -> Float[np.ndarray, "*B"]:
    """Kendall's τ-b, the correlation of two orders with a correction for ties (Kendall 1945); NaN if all of one are tied."""
    first, second = np.triu_indices(x.shape[-1], 1)
    (a, b) = (np.where(abs(d := z[..., first] - z[..., second]) > FUZZ, np.sign(d), 0) for z in (x, y))
    with np.errstate(invalid="ignore"):
        return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def resampled(
    runs: Runs, rng: np.random.Generator, draws: Sequence[int] | None = None, replicates: int = REPLICATES
) -> Float[np.ndarray, "B E"]:
    """Overall scores of stratified resamples: seeds are drawn with replacement within each encoding and task.

    Deviations from the mean are multiplied by √(S/(S − 1)), without which S runs give too small a variance.

    Arguments:
        draws: number of seeds to draw for each encoding; by default as many as it has.
    """
    columns = []
    for place, scores in enumerate(runs):
        count, tasks = scores.shape
        drawn = scores[rng.integers(count, size=(replicates, draws[place] if draws else count, tasks)), np.arange(tasks)]
        columns.append(scores.mean() + np.sqrt(count / max(1, count - 1)) * (drawn.mean((1, 2)) - scores.mean()))
    return np.stack(columns, 1)


def resampled_tau(ours: Runs, theirs: Runs, draws: Sequence[int] | None = None) -> tuple[float, Interval] | None:
    """τ between two conditions whose runs are resampled independently: mean and percentile interval.

    Resampling adds the spread of the seeds to the scores, so the interval reaches further down than up from the estimate.

    Arguments:
        draws: see ``resampled``.

    Returns:
        None with single seeds, or if all encodings are tied.
    """
    if len(ours) < 2 or min(len(scores) for scores in (*ours, *theirs)) < 2:
        return None
    rng = np.random.default_rng(0)
    taus = kendall_tau(resampled(ours, rng, draws), resampled(theirs, rng, draws))
    taus = taus[~np.isnan(taus)]
    return (float(taus.mean()), tuple(np.quantile(taus, TAILS).tolist())) if len(taus) else None


def rate_values(by_rate: Mapping[str, Mapping[str, SeedRuns]]) -> tuple[list[str], list[str], Float[np.ndarray, "E R S T 3"]]:
    """Learning rates (``BASE`` first), encodings, and what their runs gave, as in ``SeedRuns``: those rates that most encodings
    have, the encodings with all of these, and their common seeds."""
    counts = {rate: sum(map(bool, runs.values())) for rate, runs in by_rate.items()}
    most = max((count for rate, count in counts.items() if rate != BASE), default=0)
    rates = [rate for rate, count in counts.items() if rate == BASE or count == most > 0]
    names = [name for name in by_rate[BASE] if all(by_rate[rate][name] for rate in rates)]
    sides = [by_rate[rate][name] for rate in rates for name in names]
    seeds = [seed for seed in (sides[0] if sides else ()) if all(seed in side for side in sides)]
    if not seeds:
        return rates, [], np.zeros((0, len(rates), 0, 0, 3))
    return rates, names, np.array([[stacked(by_rate[rate][name], seeds) for rate in rates] for name in names])


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


def tune(rates: Sequence[str], names: Sequence[str], values: Float[np.ndarray, "E R S T 3"]) -> Tuned | None:
    """Take for each encoding the learning rate with the lowest loss, mean over tasks and seeds; the choice is not resampled.

    Arguments:
        rates, names, values: from ``rate_values``.

    Returns:
        None without at least two encodings and rates.
    """
    if min(len(names), len(rates)) < 2:
        return None
    losses = values[..., 1:].mean((2, 3))
    by_answers = not np.isnan(losses[..., 0]).any()
    best = np.nan_to_num(losses[..., 0 if by_answers else 1], nan=np.inf).argmin(1)
    base, chosen = values[:, 0, ..., 0], values[np.arange(len(names)), best, ..., 0]
    chosen_rates = {name: rates[place] for name, place in zip(names, best, strict=True)}
    return Tuned(chosen_rates, comparison(BASE, names, list(base), list(chosen), list(base)), bool(by_answers))
