"""Scores and aggregates of the board, computed from accuracy by length. Pure functions of arrays.

The unit is one run (a seed). Accuracies of one run at different lengths are not independent, so each run is first reduced to
one number; only runs are averaged or resampled. Intervals are in ``bootstrap``, tests and ranks in ``significance``.
Shapes: S seeds, N test lengths, K thresholds.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

GATE = 0.95
"""In-distribution exact match below which an OOD number says nothing about extrapolation."""
REACH = 0.9
"""Exact match required by ``reach``."""
LEVEL = 0.95
"""Confidence level of every interval."""
DIGITS = 3
"""Decimals of a printed score; scores that print alike are tied."""
FUZZ = 1e-9
"""Tolerance for rounding: a mean of exact hundredths may come out this little below a threshold it meets."""

Scores = Sequence[Float[np.ndarray, " S"]]
"""Scores of one encoding: for each task, those of its runs, in 0 … 1. The number of runs may differ by task."""


def in_distribution(
    lengths: Int[np.ndarray, " N"], exact: Float[np.ndarray, "S N"], train_length: int
) -> Float[np.ndarray, " S"]:
    """Mean exact match of each run over the test lengths l ≤ L."""
    return exact[:, lengths <= train_length].mean(1)


def out_of_distribution(
    lengths: Int[np.ndarray, " N"], exact: Float[np.ndarray, "S N"], train_length: int
) -> Float[np.ndarray, " S"]:
    """Mean exact match of each run over the test lengths l > L."""
    return exact[:, lengths > train_length].mean(1)


def run_scores(
    lengths: Int[np.ndarray, " N"], exact: Float[np.ndarray, "S N"], chance: Float[np.ndarray, " N"], train_length: int
) -> Float[np.ndarray, " S"]:
    """Chance-corrected OOD score of each run: mean over l > L of (exact − chance)/(1 − chance), then floored at 0.

    0 is guessing or worse, 1 is perfect. The correction is Cohen's kappa with a known chance level. Flooring at each length,
    before the mean, would reward a guesser for its lucky lengths.
    """
    past = lengths > train_length
    return np.maximum(((exact[:, past] - chance[past]) / (1 - chance[past])).mean(1), 0)


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


def optimality_gap(scores: Scores, target: float = 1.0) -> float:
    """Optimality gap: γ − mean of min(score, γ), over runs and then over tasks (Agarwal et al. 2021).

    Arguments:
        target: γ. At 1, which no score exceeds, the gap is 1 − mean.
    """
    return target - mean_score([np.minimum(runs, target) for runs in scores])


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


def reach(lengths: Int[np.ndarray, " N"], exact: Float[np.ndarray, "S N"]) -> int:
    """Reach: the longest test length up to which exact match, averaged over runs, is never below ``REACH``.

    In the task's units; 0 if the shortest test length already fails. Lengths passed after a failed one do not count. RULER
    (Hsieh et al. 2024) calls a similar measure the effective length.

    Arguments:
        lengths: ascending.
    """
    longest = 0
    for length, accuracy in zip(lengths, exact.mean(0), strict=True):
        if accuracy < REACH - FUZZ:
            break
        longest = int(length)
    return longest


def passes_gate(accuracy: float) -> bool:
    """Whether an in-distribution accuracy reaches ``GATE``."""
    return accuracy >= GATE - FUZZ


def competition_ranks(*scores: Sequence[float], digits: int = DIGITS) -> list[int]:
    """Competition ranks (1, 1, 3): 1 + the number of entries whose printed scores are better.

    Arguments:
        scores: the primary score of each entry, then scores that break ties, in order.
    """
    printed = [tuple(round(s, digits) for s in entry) for entry in zip(*scores, strict=True)]
    return [1 + sum(other > entry for other in printed) for entry in printed]


def relative_time(ours: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> float | None:
    """Step time relative to a baseline: geometric mean over tasks of the ratio of medians over runs.

    Only with the geometric mean do a/b and b/a agree (Fleming & Wallace 1986).

    Arguments:
        ours, base: for each task, the step time of each run in milliseconds; runs without a step (0 ms) are ignored.

    Returns:
        The ratio, or None if either side has no time on some task.
    """
    logs = []
    for times, base_times in zip(ours, base, strict=True):
        times, base_times = [t for t in times if t > 0], [t for t in base_times if t > 0]
        if not times or not base_times:
            return None
        logs.append(np.log(np.median(times) / np.median(base_times)))
    return float(np.exp(np.mean(logs))) if logs else None
