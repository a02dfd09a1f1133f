"""Scores and aggregates of the board, computed from accuracy by length. Pure functions of arrays.

The unit is one run (a seed). Accuracies of one run at different lengths are not independent, so each run is first reduced to
one number; only runs are averaged or resampled. Intervals are in ``bootstrap``, tests and ranks in ``significance``.
Shapes: S seeds, N test lengths, K thresholds.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

GATE = 0.95
"""In-distribution exact match below which an OOD number says nothing about extrapolation."""
REACH = 0.5
"""Exact match with guessing taken out under which ``reach`` ends."""
LEVEL = 0.95
"""Confidence level of every interval."""
DIGITS = 3
"""Decimals of a printed score; scores that print alike are tied."""
FUZZ = 1e-9
"""Tolerance for rounding: a mean of exact hundredths may come out this little below a threshold it meets."""

Scores = Sequence[Float[np.ndarray, " S"]]
"""Scores of one encoding: for each task, those of its runs, in 0 … 1. The number of runs may differ by task."""
Numbers = TypeVar("Numbers", float, np.ndarray)


def in_distribution(
    lengths: Int[np.ndarray, " N"], exact: Float[np.ndarray, "S N"], train_length: int
) -> Float[np.ndarray, " S"]:
    """Mean exact match of each run over the test lengths l ≤ L."""
    return exact[:, lengths <= train_length].mean(1)


def without_guessing(accuracy: Numbers, chance: Numbers) -> Numbers:
    """(accuracy − chance)/(1 − chance): 0 is guessing, 1 is perfect. This is Cohen's kappa with a known chance level."""
    return (accuracy - chance) / (1 - chance)


def cell_scores(
    exact: Float[np.ndarray, "S N"],
    token: Float[np.ndarray, "S N"],
    chance: Float[np.ndarray, " N"],
    token_chance: Float[np.ndarray, "S N"],
) -> Float[np.ndarray, "S N"]:
    """Score of each run at each test length: the only place that decides what is ranked.

    The mean of exact match and token accuracy, each with guessing taken out.

    Arguments:
        token_chance: NaN where unknown, as in results of before it was recorded; exact match is then used alone.
    """
    of_exact = without_guessing(exact, chance)
    return np.where(np.isnan(token_chance), of_exact, (of_exact + without_guessing(token, token_chance)) / 2)


def length_weights(lengths: Int[np.ndarray, " N"], train_length: int) -> Float[np.ndarray, " N"]:
    """Weight of each test length in a mean past L: log(l_i/l_{i−1}) for l_i > L, with l_0 = L, scaled to a sum of 1.

    Each octave past L has the same weight, however many test lengths it has; 0 for l ≤ L.
    """
    past = np.maximum(lengths, train_length)
    return np.diff(np.log(past), prepend=np.log(train_length)) / np.log(past[-1] / train_length)


def past_mean(lengths: Int[np.ndarray, " N"], values: Float[np.ndarray, "S N"], train_length: int) -> Float[np.ndarray, " S"]:
    """Mean of each run over the test lengths l > L with ``length_weights``; NaN if any value past L is."""
    past = lengths > train_length
    return values[:, past] @ length_weights(lengths, train_length)[past]


def run_scores(lengths: Int[np.ndarray, " N"], cells: Float[np.ndarray, "S N"], train_length: int) -> Float[np.ndarray, " S"]:
    """Score of each run on a task: ``past_mean`` of its ``cell_scores``, then floored at 0.

    0 is guessing or worse, 1 is perfect. A floor at each length, before the mean, would reward a guesser for lucky lengths.
    """
    return np.clip(past_mean(lengths, cells, train_length), 0, 1)  # a mean of ones may round to more than 1


def mean_interval(values: Float[np.ndarray, " S"]) -> tuple[float, float | None]:
    """Mean over runs and the half-width t₍₀.₉₇₅, S₋₁₎·s/√S of its Student-t interval; no half-width for a single run."""
    count = len(values)
    if count < 2:
        return float(values.mean()), None
    return float(values.mean()), float(stdtrit(count - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(count))


def mean_score(scores: Scores) -> float:
    """Mean over tasks of the mean over runs: all tasks have the same weight, whatever their number of runs."""
    return float(np.mean([runs.mean() for runs in scores]))


def iqm(scores: Scores) -> float:
    """Interquartile mean: the mean of the middle half of all runs of all tasks (Agarwal et al. 2021).

    A quarter of the runs, rounded down, is trimmed at either end. With equally many runs per task this is
    ``scipy.stats.trim_mean(scores, 0.25, axis=None)`` and rliable's IQM. All tasks have the same weight: in a task with more
    runs each run has less, in trimming and in the mean. Otherwise a half-finished grid would be ranked by the tasks that ran
    first.
    """
    pooled, weights = np.concatenate(scores), task_weights([len(runs) for runs in scores])
    order = np.argsort(pooled)
    return min(1.0, float(pooled[order] @ iqm_weights(weights[order])))  # a mean of ones may round to more than 1


def task_weights(counts: Sequence[int]) -> Float[np.ndarray, " R"]:
    """Weight of each run (sorted by task) in a mean over tasks of the mean over runs; the weights sum to 1."""
    return np.repeat(1 / (len(counts) * np.array(counts)), counts)


def iqm_weights(weights: Float[np.ndarray, "... R"]) -> Float[np.ndarray, "... R"]:
    """Weight of each run in the interquartile mean.

    Arguments:
        weights: of each run in the plain mean, in ascending order of scores. A run across a cut counts with the part inside.
    """
    runs = weights.shape[-1]
    cut = int(0.25 * runs) / runs
    above = np.cumsum(weights, axis=-1)
    inside = np.clip(above, cut, 1 - cut) - np.clip(above - weights, cut, 1 - cut)
    return inside / (1 - 2 * cut)


def performance_profile(scores: Scores, thresholds: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """Performance profile: the share of runs that score above each threshold τ, mean over tasks (Agarwal et al. 2021).

    Does not depend on other encodings. Its area from 0 to 1 is the mean score.
    """
    return np.mean([(runs[:, None] > thresholds).mean(0) for runs in scores], axis=0)


def probability_of_improvement(ours: Scores, theirs: Scores) -> float:
    """Probability that a run of ours scores above a run of theirs on the same task, mean over tasks (Agarwal et al. 2021).

    For each task this is U/(S·S′), where U is the Mann-Whitney statistic and a tie counts ½.

    Arguments:
        ours, theirs: the same tasks in the same order; numbers of runs may differ.
    """
    return float(np.mean([pairwise_wins(x, y).mean() for x, y in zip(ours, theirs, strict=True)]))


def pairwise_wins(ours: Float[np.ndarray, " S"], theirs: Float[np.ndarray, " Z"]) -> Float[np.ndarray, "S Z"]:
    """1 where our run scores above theirs, ½ for a tie, else 0."""
    return (ours[:, None] > theirs) + (ours[:, None] == theirs) / 2


class Reach(NamedTuple):
    """How far an encoding carries, in multiples of L."""

    at: float
    mark: Literal["", "≥", "<", "~"] = ""
    """``≥``: the test ends first. ``<``: under one half at the shortest test length already, which is ``at``. ``~``: a mean of
    values some of which have the one mark, some the other."""


def reach(
    lengths: Int[np.ndarray, " N"], exact: Float[np.ndarray, "S N"], chance: Float[np.ndarray, " N"], train_length: int
) -> Reach:
    """The length, in multiples of L, at which exact match first falls under ``REACH``.

    Exact match is the mean over runs with guessing taken out, and linear in log l between test lengths. Lengths passed after
    the first failed one do not count. An encoding that has not learned the task may fall under it below L.

    Arguments:
        lengths: ascending.
    """
    curve, at = without_guessing(exact.mean(0), chance), np.log(lengths / train_length)
    failed = np.flatnonzero(curve < REACH - FUZZ)
    if not len(failed):
        return Reach(float(lengths[-1] / train_length), "≥")
    after = failed[0]
    if after == 0:
        return Reach(float(lengths[0] / train_length), "<")
    part = max(0.0, (curve[after - 1] - REACH) / (curve[after - 1] - curve[after]))
    return Reach(float(np.exp(at[after - 1] + part * (at[after] - at[after - 1]))))


def mean_reach(reaches: Sequence[Reach]) -> Reach:
    """Geometric mean over tasks."""
    marks = {one.mark for one in reaches} - {""}
    mark = "~" if len(marks) > 1 else marks.pop() if marks else ""
    return Reach(float(np.exp(np.mean(np.log([one.at for one in reaches])))), mark)


def passes_gate(accuracy: float) -> bool:
    """Whether an in-distribution accuracy reaches ``GATE``."""
    return accuracy >= GATE - FUZZ


def competition_ranks(scores: Sequence[float]) -> list[int]:
    """Competition ranks (1, 1, 3): 1 + the number of entries whose printed scores are better."""
    printed = [round(score, DIGITS) for score in scores]
    return [1 + sum(other > entry for other in printed) for entry in printed]


def relative_time(ours: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> float | None:
    """Step time relative to a baseline: geometric mean over tasks of the ratio of medians over runs.

    Only with the geometric mean do a/b and b/a agree (Fleming & Wallace 1986).

    Arguments:
        ours, base: for each task, the step time of each run in milliseconds.

    Returns:
        The ratio, or None if either side has no time on some task.
    """
    logs = []
    for times, base_times in zip(ours, base, strict=True):
        if not times or not base_times:
            return None
        logs.append(np.log(np.median(times) / np.median(base_times)))
    return float(np.exp(np.mean(logs))) if logs else None
