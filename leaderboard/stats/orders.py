"""Two orders of the same encodings by overall score: Kendall's τ, the moves, and what becomes of the separated pairs.

Shapes: E encodings, S seeds, T tasks, B replicates, P pairs of encodings.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from . import scores as st
from .bootstrap import TAILS, Interval
from .scores import FUZZ
from .significance import ALPHA, separation_ps

REPLICATES = 5_000
TEST_REPLICATES = 100_000
"""Of the test, more than on a board: there are few pairs, so one that another draw would decide otherwise changes a count."""
Runs = Sequence[Float[np.ndarray, "S T"]]
"""For each encoding, the scores of its runs; the number of seeds may differ."""


class Move(NamedTuple):
    """How an encoding's place changes."""

    encoding: str
    before: int
    after: int
    change: float
    """Of its overall score."""


class Pairs(NamedTuple):
    """What becomes of the pairs of encodings that the board's test separates in the suite."""

    same: int
    """Pairs separated in the same direction."""
    reversed: tuple[tuple[str, str], ...]
    """Pairs separated in the other direction: the better one in the suite, and the better one under the condition."""
    open: tuple[tuple[str, str], ...]
    """Pairs not separated."""

    @property
    def total(self) -> int:
        return self.same + len(self.reversed) + len(self.open)


@dataclass(frozen=True)
class OrderComparison:
    """The overall scores under one condition and in the suite itself."""

    condition: str
    encodings: tuple[str, ...]
    base_by_task: Float[np.ndarray, "E T"]
    scores_by_task: Float[np.ndarray, "E T"]
    tau: float
    """Kendall's τ-b of the two; NaN if all encodings are tied."""
    interval: Interval | None
    """None if an encoding has a single seed."""
    pairs: Pairs | None
    """None if an encoding has a single seed."""

    @property
    def base(self) -> Float[np.ndarray, " E"]:
        """Overall scores in the suite."""
        return self.base_by_task.mean(1)

    @property
    def scores(self) -> Float[np.ndarray, " E"]:
        """Overall scores under the condition."""
        return self.scores_by_task.mean(1)

    @property
    def holds(self) -> bool | None:
        """Whether the order holds: no pair is reversed, and at least half of the pairs are separated again. None if no pair is
        reversed and fewer are separated again."""
        if not self.pairs or not self.pairs.total:
            return None
        return False if self.pairs.reversed else True if 2 * self.pairs.same >= self.pairs.total else None

    @property
    def moves(self) -> list[Move]:
        """By places, then by score, largest first."""
        before, after = st.competition_ranks(list(self.base)), st.competition_ranks(list(self.scores))
        moves = map(Move, self.encodings, before, after, (self.scores - self.base).tolist())
        return sorted(moves, key=lambda m: (-abs(m.after - m.before), -abs(m.change), m.encoding))


def comparison(
    condition: str, names: Sequence[str], ours: Runs, theirs: Runs, separated: Float[np.ndarray, " P"] | None
) -> OrderComparison:
    """Compare the encodings' runs under a condition (theirs) with those in the suite (ours).

    Arguments:
        separated: ``directions(ours)``; None if an encoding has a single seed there.
    """
    before, after = task_means(ours), task_means(theirs)
    interval = pairs = None
    if separated is not None and min(map(len, theirs)) > 1:
        interval, pairs = tau_interval(ours, theirs), compare_pairs(names, separated, directions(theirs))
    tau = float(kendall_tau(before.mean(1), after.mean(1)))
    return OrderComparison(condition, tuple(names), before, after, tau, interval, pairs)


def compare_pairs(names: Sequence[str], before: Float[np.ndarray, " P"], after: Float[np.ndarray, " P"]) -> Pairs:
    """Compare the ``directions`` of pairs in the suite with those under the condition."""
    ordered = [pair if b > 0 else pair[::-1] for pair, b in zip(itertools.combinations(names, 2), before, strict=True)]
    turned = tuple(itertools.compress(ordered, before * after < 0))
    unsure = tuple(itertools.compress(ordered, (before != 0) & (after == 0)))
    return Pairs(int((before * after > 0).sum()), turned, unsure)


def directions(runs: Runs) -> Float[np.ndarray, " P"]:
    """For each pair of encodings 1 if the board's test separates the first above the second, −1 if below, 0 if it does not;
    adjusted for these pairs."""
    scores, (first, second) = overall(runs), np.triu_indices(len(runs), 1)
    separated = separation_ps([list(one.T) for one in runs], TEST_REPLICATES) <= ALPHA
    return np.sign(scores[first] - scores[second]) * separated


def task_means(runs: Runs) -> Float[np.ndarray, "E T"]:
    """Score of each encoding on each task."""
    return np.array([scores.mean(0) for scores in runs])


def overall(runs: Runs) -> Float[np.ndarray, " E"]:
    """Overall score of each encoding."""
    return task_means(runs).mean(1)


def kendall_tau(x: Float[np.ndarray, "*B E"], y: Float[np.ndarray, "*B E"]) -> Float[np.ndarray, "*B"]:
    """Kendall's τ-b, the correlation of two orders with a correction for ties (Kendall 1945); NaN if all of one are tied."""
    first, second = np.triu_indices(x.shape[-1], 1)
    (a, b) = (np.where(abs(d := z[..., first] - z[..., second]) > FUZZ, np.sign(d), 0) for z in (x, y))
    with np.errstate(invalid="ignore"):
        return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def resampled(runs: Runs, rng: np.random.Generator, replicates: int = REPLICATES) -> Float[np.ndarray, "B E"]:
    """Overall scores of stratified resamples: seeds are drawn with replacement within each encoding and task.

    Deviations from the mean are multiplied by √(S/(S − 1)), without which S runs give too small a variance.
    """
    columns = []
    for scores in runs:
        count, tasks = scores.shape
        drawn = scores[rng.integers(count, size=(replicates, count, tasks)), np.arange(tasks)]
        columns.append(scores.mean() + np.sqrt(count / (count - 1)) * (drawn.mean((1, 2)) - scores.mean()))
    return np.stack(columns, 1)


def tau_interval(ours: Runs, theirs: Runs) -> Interval | None:
    """Percentile interval of τ between two conditions; None if all encodings are tied. Their runs are resampled independently,
    but once for an encoding whose runs are the same in both.

    Resampling adds the spread of the seeds to the scores of both, so the interval need not be centred on the estimate.
    """
    rng = np.random.default_rng(0)
    before, after = resampled(ours, rng), resampled(theirs, rng)
    shared = [mine is other for mine, other in zip(ours, theirs, strict=True)]
    after[:, shared] = before[:, shared]
    taus = kendall_tau(before, after)
    taus = taus[~np.isnan(taus)]
    return tuple(np.quantile(taus, TAILS).tolist()) if len(taus) else None
