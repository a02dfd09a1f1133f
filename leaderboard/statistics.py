"""From accuracy by length to the numbers of the board. Pure functions of arrays: they know no files and no tables.

One run (a seed) is the unit. Lengths of one run are not independent, so a run's curve is reduced to one number first and
only runs are averaged or resampled. How sure the numbers are is in ``inference`` and ``significance``.
Shapes: S seeds, N test lengths, K thresholds.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.special import stdtrit

GATE = 0.95
"""In-distribution exact match under which an OOD number says nothing about extrapolation."""
REACH = 0.9
"""Exact match that ``reach`` asks for."""
LEVEL = 0.95
"""Of every interval."""
DIGITS = 3
"""Decimals of a printed score; scores that print the same are tied."""
FUZZ = 1e-9
"""Means of exact hundredths may fall this little under a threshold that they meet."""

Scores = Sequence[Float[np.ndarray, " S"]]
"""Of one encoding: for each task the scores of its runs, in 0 … 1. Tasks may differ in their number of runs."""


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


def score(
    lengths: Int[np.ndarray, " N"], exact: Float[np.ndarray, "S N"], chance: Float[np.ndarray, " N"], train_length: int
) -> Float[np.ndarray, " S"]:
    """Chance-corrected OOD score of each run: mean over l > L of (exact − chance)/(1 − chance), then floored at 0.

    Floored after the mean: floored at each length, a guesser would earn a score from its lucky lengths. 0 is guessing or worse,
    1 is perfect; the correction is Cohen's kappa with a known chance level.
    """
    past = lengths > train_length
    return np.maximum(((exact[:, past] - chance[past]) / (1 - chance[past])).mean(1), 0)


def mean_interval(values: Float[np.ndarray, " S"]) -> tuple[float, float | None]:
    """Mean over runs and the half-width t₍₀.₉₇₅, S₋₁₎·s/√S of its Student-t interval; no half-width for a single run."""
    count = len(values)
    if count < 2:
        return float(values.mean()), None
    return float(values.mean()), float(stdtrit(count - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(count))


def overall(scores: Scores) -> float:
    """Mean over tasks of each task's mean over its runs; tasks may differ in their number of runs and weigh the same."""
    return float(np.mean([runs.mean() for runs in scores]))


def iqm(scores: Scores) -> float:
    """Interquartile mean: the mean of the middle half of all runs of all tasks (Agarwal et al. 2021).

    A quarter of the runs, rounded down, is cut off at either end (``scipy.stats.trim_mean(scores, 0.25, axis=None)``, and
    rliable's, where tasks have as many runs). Tasks weigh the same: where one has more runs than another, each of its runs
    counts for less, at the cut as in the mean. Pooled alike, a grid that is half done would rank by the task it began with.
    """
    pooled, weights = np.concatenate(scores), task_weights([len(runs) for runs in scores])
    order = np.argsort(pooled)
    return min(1.0, float(pooled[order] @ middle(weights[order])))  # rounding: a mean of ones may come out above


def task_weights(counts: Sequence[int]) -> Float[np.ndarray, " R"]:
    """Of each run, those of one task after those of another, in a mean over tasks of the mean over runs; they add up to 1."""
    return np.repeat(1 / (len(counts) * np.array(counts)), counts)


def middle(weights: Float[np.ndarray, "... R"]) -> Float[np.ndarray, "... R"]:
    """What each run weighs in the interquartile mean, from what it weighs among all; in ascending order of their scores.

    A run on the edge of a cut counts for the part that is inside.
    """
    runs = weights.shape[-1]
    cut = int(0.25 * runs) / runs
    above = np.cumsum(weights, axis=-1)
    inside = np.clip(above, cut, 1 - cut) - np.clip(above - weights, cut, 1 - cut)
    return inside / (1 - 2 * cut)


def optimality_gap(scores: Scores, target: float = 1.0) -> float:
    """How far runs stay below a target: γ − mean of min(score, γ), over runs and then over tasks (Agarwal et al. 2021).

    Arguments:
        target: γ. At 1, which no score exceeds, the gap is 1 less the mean.
    """
    return target - overall([np.minimum(runs, target) for runs in scores])


def profile(scores: Scores, thresholds: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """Performance profile: the share of runs that score above each threshold, ρ(τ), mean over tasks (Agarwal et al. 2021).

    Absolute: no other encoding can move it. Its area from 0 to 1 is the mean score.
    """
    return np.mean([(runs[:, None] > thresholds).mean(0) for runs in scores], axis=0)


def improvement(ours: Scores, theirs: Scores) -> float:
    """Probability of improvement: that a run of ours scores above a run of theirs on the same task, mean over tasks.

    For each task U/(S·S′), U the Mann-Whitney statistic, in which a tie counts ½ (Agarwal et al. 2021).

    Arguments:
        ours, theirs: the same tasks in the same order; numbers of runs may differ.
    """
    return float(np.mean([wins(x, y).mean() for x, y in zip(ours, theirs, strict=True)]))


def wins(ours: Float[np.ndarray, " S"], theirs: Float[np.ndarray, " Z"]) -> Float[np.ndarray, "S Z"]:
    """Which of our runs beats which of theirs: 1, ½ for a tie, or 0."""
    return (ours[:, None] > theirs) + (ours[:, None] == theirs) / 2


def reach(lengths: Int[np.ndarray, " N"], exact: Float[np.ndarray, "S N"]) -> int:
    """The longest tested length up to which exact match, averaged over runs, never falls under ``REACH``.

    In the task's units; 0 if the shortest test length already fails. RULER (Hsieh et al. 2024) calls its like the effective
    length. A length passed after a failed one does not count.

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


def ranks(*scores: Sequence[float], digits: int = DIGITS) -> list[int]:
    """Competition ranks, best first: 1 + the number of entries that are printed as better (1, 1, 3).

    Arguments:
        scores: what decides first, for each entry; then what decides where that is printed the same; and so on.
    """
    printed = [tuple(round(s, digits) for s in entry) for entry in zip(*scores, strict=True)]
    return [1 + sum(other > own for other in printed) for own in printed]


def relative_time(own: Sequence[Sequence[float]], base: Sequence[Sequence[float]]) -> float | None:
    """How many times the base's step an encoding's step takes: geometric mean over tasks of the ratio of medians over runs.

    The geometric mean is the one under which a/b and b/a agree (Fleming & Wallace 1986).

    Arguments:
        own, base: for each task, milliseconds a step of each run; runs that took no step (0 ms) are left out.

    Returns:
        The factor, or None where either side lacks a time on some task.
    """
    logs = []
    for ours, theirs in zip(own, base, strict=True):
        ours, theirs = [t for t in ours if t > 0], [t for t in theirs if t > 0]
        if not ours or not theirs:
            return None
        logs.append(np.log(np.median(ours) / np.median(theirs)))
    return float(np.exp(np.mean(logs))) if logs else None
