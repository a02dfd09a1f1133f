"""Significance: a permutation test for each pair of encodings, Holm's correction, and the ranks that follow."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import comb

from .scores import FUZZ, Scores

ALPHA = 0.05
"""Family-wise error rate: the largest probability of any false separation in a whole table."""
CELLS = 4096
"""Number of steps into which the range of the test statistic is divided."""


def permutation_p(ours: Scores, theirs: Scores) -> float:
    """Two-sided p of the stratified permutation test of the difference of mean scores.

    Null hypothesis: on every task, the runs of both encodings come from one distribution. Then all splits of a task's runs
    into ours and theirs are equally likely; p is the share of splits, over all tasks jointly, whose difference is at least as
    large as the observed one. The test assumes nothing about the distribution. That matters for scores near 0 or 1, or jumping
    between them, where a t-test would be infinitely confident in five equal runs. The statistic is the mean printed on the
    board; a rank test (of the probability of improvement) would prefer a tiny but steady lead on most tasks to a large lead on
    few. Runs are exchanged within tasks, not paired by seed: what runs of one seed share (the order of the training data)
    hardly affects their scores, ignoring it is conservative, and with pairs one task of five seeds could give no p below 1/16.

    All splits are counted, none sampled: the shift algorithm (Streitberg & Röhmel 1986) gives the distribution on each task,
    and Fourier transforms that of the sum over tasks (Pagano & Tritchler 1983). Scores are first rounded to 1/4096 of the range
    of the statistic; the test is exact for the rounded scores. As a test of equal means it is exact only for equal variances:
    with three runs against five and standard deviations that differ threefold, 8 % of equal means had p below 0.05.

    Arguments:
        ours, theirs: the same tasks in the same order; numbers of runs may differ.
    """
    pairs = [(np.concatenate([x, y]), len(x)) for x, y in zip(ours, theirs, strict=True)]
    pairs = [(runs, k) for runs, k in pairs if np.ptp(runs) > FUZZ]  # otherwise all splits give the same difference
    if not pairs:
        return 1.0
    cell = sum(statistic_range(runs, k) for runs, k in pairs) / CELLS
    observed, centre, splits, parts = 0, 0.0, 1.0, []
    for runs, k in pairs:
        scale = 1 / k + 1 / (len(runs) - k)  # factor of a run's score in the difference of means
        steps = np.rint(scale * (runs - runs.min()) / cell).astype(int)
        observed += steps[:k].sum()
        centre += steps.sum() * k / len(runs)
        splits *= comb(len(runs), k)
        parts.append(subset_counts(steps, k) / comb(len(runs), k))
    length = sum(len(part) - 1 for part in parts) + 1
    transform = np.prod([rfft(part, next_fast_len(length)) for part in parts], axis=0)
    share = irfft(transform, next_fast_len(length))[:length]
    beyond = np.abs(np.arange(length) - centre) >= abs(observed - centre) - FUZZ
    return float(np.clip(share[beyond].sum(), 1 / splits, 1))  # the transforms have errors of about 1e-16


def statistic_range(runs: Float[np.ndarray, " R"], k: int) -> float:
    """Largest minus smallest difference of means between k of the runs and the others."""
    ordered, others = np.sort(runs), len(runs) - k
    return float((ordered[-k:].sum() - ordered[:k].sum()) * (1 / k + 1 / others))


def subset_counts(steps: Int[np.ndarray, " R"], k: int) -> Float[np.ndarray, " V"]:
    """Number of subsets of k of these numbers whose sum is 0, 1, … up to the largest possible."""
    counts = np.zeros((k + 1, np.sort(steps)[-k:].sum() + 1))
    counts[0, 0] = 1
    for step in steps:
        counts[1:, step:] += counts[:-1, : counts.shape[1] - step]  # numpy copies if the two overlap
    return counts[k]


def holm(ps: Sequence[float]) -> list[float]:
    """Adjusted p of each comparison of a family (Holm 1979); those up to ``ALPHA`` are significant.

    The probability of rejecting any true null hypothesis of the family is at most ``ALPHA``, whatever the dependence between
    the tests.
    """
    order = np.argsort(ps, kind="stable")
    adjusted = np.empty(len(ps))
    adjusted[order] = np.minimum(np.maximum.accumulate(np.asarray(ps, float)[order] * np.arange(len(ps), 0, -1)), 1)
    return adjusted.tolist()


def shared_ranks(ahead: Bool[np.ndarray, "R R"]) -> list[int]:
    """Rank of each row: 1 + the number of rows above that are separated from it, but never better than the row above.

    "Not separated" is not transitive: A and C may be separated although neither is separated from B. So no rule can let exactly
    the rows that are not separated share a rank. With this one ranks never decrease down the table, and a larger variance
    cannot lift a row above rows with better scores.

    Arguments:
        ahead: ``ahead[i, j]`` is True where row i is separated from a later row j and ahead of it.
    """
    return np.maximum.accumulate(1 + np.triu(ahead, 1).sum(0)).tolist() if len(ahead) else []


def rank_ranges(ahead: Bool[np.ndarray, "R R"]) -> list[tuple[int, int]]:
    """Rank range of each row: the best and the worst place compatible with the tests.

    From 1 + the number of rows separated ahead of it, to the number of rows − the number separated behind it. These are
    simultaneous confidence sets for all true ranks if ``ahead`` controls the family-wise error rate (Mogstad, Romano, Shaikh &
    Wilhelm 2024, Review of Economic Studies).

    Arguments:
        ahead: as in ``shared_ranks``.
    """
    upper = np.triu(ahead, 1)
    return list(zip((1 + upper.sum(0)).tolist(), (len(upper) - upper.sum(1)).tolist(), strict=True))
