"""Two orders of the same encodings by overall score: Kendall's τ, the moves, and what becomes of the separated pairs.

Shapes: E encodings, S seeds, T tasks, B replicates, P pairs of encodings.
"""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

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


class Reversal(NamedTuple):
    """A pair separated in the suite, and in the other direction under a condition."""

    before: str
    """The better one in the suite."""
    now: str
    """The better one under the condition."""
    p: float
    """Of the test under the condition."""


class Side(NamedTuple):
    """The runs of some encodings in the suite, or under a condition."""

    scores: Runs
    within: Float[np.ndarray, "E T"]
    """Exact match at l ≤ L, mean over seeds."""


class Separations(NamedTuple):
    """What the board's test says of all pairs of some encodings, adjusted for these pairs."""

    signs: Float[np.ndarray, " P"]
    """1 if the first is separated above the second, −1 if below, 0 if they are not separated."""
    ps: Float[np.ndarray, " P"]


class Pairs(NamedTuple):
    """What becomes of the pairs of encodings that the board's test separates in the suite."""

    same: int
    """Pairs separated in the same direction."""
    reversed: tuple[Reversal, ...]
    """Pairs separated in the other direction."""
    open: tuple[tuple[str, str], ...]
    """Pairs not separated."""
    new: tuple[tuple[str, str], ...] = ()
    """Pairs separated under the condition but not in the suite: the better one, and the other."""

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
    base_learned: Bool[np.ndarray, "E T"]
    """Whether an encoding has learned a task in the suite: its exact match at l ≤ L reaches ``scores.GATE``."""
    learned: Bool[np.ndarray, "E T"]
    """The same under the condition."""
    tau: float
    """Kendall's τ-b of the two; NaN if all encodings are tied."""
    interval: Interval | None
    """None if an encoding has a single seed."""
    pairs: Pairs | None
    """None if an encoding has a single seed."""
    signs: Float[np.ndarray, " P"]
    """``Separations.signs`` under the condition; all 0 if an encoding has a single seed."""

    @property
    def base(self) -> Float[np.ndarray, " E"]:
        """Overall scores in the suite."""
        return self.base_by_task.mean(1)

    @property
    def scores(self) -> Float[np.ndarray, " E"]:
        """Overall scores under the condition."""
        return self.scores_by_task.mean(1)

    @property
    def flagged(self) -> list[str]:
        """Encodings that have not learned every task under the condition."""
        return list(itertools.compress(self.encodings, ~np.all(self.learned, axis=1)))

    @property
    def base_flagged(self) -> list[str]:
        """Encodings that have not learned every task in the suite."""
        return list(itertools.compress(self.encodings, ~np.all(self.base_learned, axis=1)))

    def tau_among(self, names: Collection[str]) -> float:
        """``tau`` over these encodings only."""
        among = np.isin(self.encodings, list(names))
        return float(kendall_tau(self.base[among], self.scores[among]))

    def separated_below(self, name: str) -> list[str]:
        """Encodings that the test separates below this one under the condition."""
        pairs = itertools.combinations(self.encodings, 2)
        ordered = [pair if sign > 0 else pair[::-1] for pair, sign in zip(pairs, self.signs, strict=True) if sign]
        return [worse for better, worse in ordered if better == name]

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
    condition: str, names: Sequence[str], ours: Side, theirs: Side, separated: Separations | None
) -> OrderComparison:
    """Compare the encodings' runs under a condition (theirs) with those in the suite (ours).

    Arguments:
        separated: ``separations(ours.scores)``; None if an encoding has a single seed there.
    """
    before, after = task_means(ours.scores), task_means(theirs.scores)
    interval, pairs, signs = None, None, np.zeros(len(names) * (len(names) - 1) // 2)
    if separated is not None and min(map(len, theirs.scores)) > 1:
        there = separations(theirs.scores)
        interval, pairs, signs = tau_interval(ours.scores, theirs.scores), compare_pairs(names, separated, there), there.signs
    tau = float(kendall_tau(before.mean(1), after.mean(1)))
    base_learned, learned = (side.within >= st.GATE - FUZZ for side in (ours, theirs))
    return OrderComparison(condition, tuple(names), before, after, base_learned, learned, tau, interval, pairs, signs)


def compare_pairs(names: Sequence[str], before: Separations, after: Separations) -> Pairs:
    """Compare the pairs separated in the suite with those under the condition."""
    same, turned = 0, list[Reversal]()
    unsure, new = list[tuple[str, str]](), list[tuple[str, str]]()
    for pair, sign, other, p in zip(itertools.combinations(names, 2), before.signs, *after, strict=True):
        better, worse = pair if (sign or other) > 0 else pair[::-1]
        if sign * other > 0:
            same += 1
        elif sign * other < 0:
            turned.append(Reversal(better, worse, float(p)))
        elif sign or other:
            (unsure if sign else new).append((better, worse))
    return Pairs(same, tuple(turned), tuple(unsure), tuple(new))


def separations(runs: Runs) -> Separations:
    """What the test says of each pair of encodings."""
    scores, (first, second) = overall(runs), np.triu_indices(len(runs), 1)
    ps = separation_ps([list(one.T) for one in runs], TEST_REPLICATES)
    return Separations(np.sign(scores[first] - scores[second]) * (ps <= ALPHA), ps)


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
