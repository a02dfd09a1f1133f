"""From accuracy by length to the numbers of the board. Pure functions of arrays: they know no files and no tables.

One run (a seed) is the unit. Lengths of one run are not independent, so a run's curve is reduced to one number first and
only runs are averaged or resampled. Shapes: S seeds, N test lengths.
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
REPLICATES = 50_000
DIGITS = 3
"""Decimals of a printed score; scores that print the same are tied."""
FUZZ = 1e-9
"""Means of exact hundredths may fall this little under a threshold that they meet."""


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


def overall(scores: Sequence[Float[np.ndarray, " S"]]) -> float:
    """Mean over tasks of each task's mean over its runs; tasks may differ in their number of runs and weigh the same."""
    return float(np.mean([runs.mean() for runs in scores]))


def overall_interval(
    scores: Sequence[Float[np.ndarray, " S"]], replicates: int = REPLICATES, seed: int = 0
) -> tuple[float, float] | None:
    """Percentile interval of ``overall`` by the stratified bootstrap of Agarwal et al. 2021.

    Within each task its runs are resampled with replacement, independently of the other tasks; tasks are not resampled.

    Arguments:
        scores: one array of runs a task.
        seed: of the generator. It is the same for every encoding, so that no other entry can move an interval.

    Returns:
        Lower and upper end, or None where a task has a single run, which says nothing of the spread over seeds.
    """
    if any(len(runs) < 2 for runs in scores):
        return None
    rng = np.random.default_rng(seed)
    means = np.zeros(replicates)
    for runs in scores:
        means += runs[rng.integers(len(runs), size=(replicates, len(runs)))].mean(1)
    low, high = np.quantile(means / len(scores), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


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


def ranks(scores: Sequence[float], digits: int = DIGITS) -> list[int]:
    """Competition ranks, best first: 1 + the number of entries whose printed score is higher (1, 1, 3)."""
    printed = [round(s, digits) for s in scores]
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
