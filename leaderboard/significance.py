"""Which encodings the runs tell apart: a permutation test, Holm's correction, and the ranks that follow from them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import comb

from .statistics import FUZZ, Scores

ALPHA = 0.05
"""Family-wise: the most that the chance of a single false separation in a whole table may be."""
CELLS = 4096
"""Steps into which the range of the test's statistic is cut."""


def permutation_p(ours: Scores, theirs: Scores) -> float:
    """Two-sided p of the stratified permutation test on the difference of mean scores.

    Null hypothesis: on every task the runs of both encodings come from one distribution. Then any split of a task's runs into
    ours and theirs was as likely as the one seen; p is the share of all splits, on all tasks at once, whose difference is no
    smaller. Nothing is assumed of the distribution, which matters for scores that are near 0 or 1 or jump between them, where a
    t test would call five equal runs infinitely sure. The statistic is the mean that the board prints: a test of ranks (one on
    the probability of improvement) would call a tiny but steady lead on most tasks better than a great one on few. Runs are
    exchanged within tasks, not within seeds: what runs of one seed share (the order of the training data) hardly shows in their
    scores, the test only errs to the safe side where it does, and the five pairs of one task could give no p under 1/16.

    All splits are counted, none is drawn: the shift algorithm (Streitberg & Röhmel 1986) gives each task's distribution,
    Fourier transforms that of their sum (Pagano & Tritchler 1983). For this, scores are rounded to 1/4096 of the statistic's
    range; the test is exact for the rounded ones. As a test of means alone it is exact only where spreads agree too: with three
    runs against five, and spreads three times apart, 8 % of equal means came out under 0.05.

    Arguments:
        ours, theirs: the same tasks in the same order; numbers of runs may differ.
    """
    pairs = [(np.concatenate([x, y]), len(x)) for x, y in zip(ours, theirs, strict=True)]
    pairs = [(runs, k) for runs, k in pairs if np.ptp(runs) > FUZZ]  # else all splits are alike
    if not pairs:
        return 1.0
    spans = [spread(runs, k) for runs, k in pairs]
    cell = sum(spans) / CELLS
    seen, centre, splits, parts = 0, 0.0, 1.0, []
    for runs, k in pairs:
        scale = 1 / k + 1 / (len(runs) - k)  # of a run's score in the difference of the means
        steps = np.rint(scale * (runs - runs.min()) / cell).astype(int)
        seen += steps[:k].sum()
        centre += steps.sum() * k / len(runs)
        splits *= comb(len(runs), k)
        parts.append(ways(steps, k) / comb(len(runs), k))
    length = sum(len(part) - 1 for part in parts) + 1
    transform = np.prod([rfft(part, next_fast_len(length)) for part in parts], axis=0)
    share = irfft(transform, next_fast_len(length))[:length]
    beyond = np.abs(np.arange(length) - centre) >= abs(seen - centre) - FUZZ
    return float(np.clip(share[beyond].sum(), 1 / splits, 1))  # the transforms err by some 1e-16


def spread(runs: Float[np.ndarray, " R"], k: int) -> float:
    """From the least to the greatest difference of means of k of the runs and the others."""
    ordered, others = np.sort(runs), len(runs) - k
    return float((ordered[-k:].sum() - ordered[:k].sum()) * (1 / k + 1 / others))


def ways(steps: Int[np.ndarray, " R"], k: int) -> Float[np.ndarray, " V"]:
    """For each value 0, 1, … up to the greatest, how many choices of k of these numbers sum to it."""
    found = np.zeros((k + 1, np.sort(steps)[-k:].sum() + 1))
    found[0, 0] = 1
    for step in steps:
        found[1:, step:] += found[:-1, : found.shape[1] - step]  # numpy copies where the two overlap
    return found[k]


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's (1979) adjusted p of each comparison of a family; those up to ``ALPHA`` are significant.

    The chance that any true null hypothesis of the family is rejected stays under ``ALPHA``, however the tests depend on each
    other.
    """
    order = np.argsort(ps, kind="stable")
    adjusted = np.empty(len(ps))
    adjusted[order] = np.minimum(np.maximum.accumulate(np.asarray(ps, float)[order] * np.arange(len(ps), 0, -1)), 1)
    return adjusted.tolist()


def shared_ranks(ahead: Bool[np.ndarray, "R R"]) -> list[int]:
    """Rank of each row: 1 + the number of rows above that are separated from it, but no better than that of the row above.

    "Not separated" does not carry over: A may not be told from B, nor B from C, and yet A from C. So no rule can have exactly
    those share a rank that are not separated. By this one ranks grow down the table, and scattering more cannot lift a row over
    those that score more than it.

    Arguments:
        ahead: ``ahead[i, j]`` says that row i, above row j, is separated from it.
    """
    return np.maximum.accumulate(1 + np.triu(ahead, 1).sum(0)).tolist() if len(ahead) else []


def places(ahead: Bool[np.ndarray, "R R"]) -> list[tuple[int, int]]:
    """The best and the worst place of each row that the runs leave open.

    1 + the number of rows separated ahead of it, and all rows less those separated behind it: simultaneous confidence sets for
    all true ranks where ``ahead`` keeps its family-wise error (Mogstad, Romano, Shaikh & Wilhelm 2024, Review of Economic
    Studies).

    Arguments:
        ahead: as in ``shared_ranks``.
    """
    upper = np.triu(ahead, 1)
    return list(zip((1 + upper.sum(0)).tolist(), (len(upper) - upper.sum(1)).tolist(), strict=True))
