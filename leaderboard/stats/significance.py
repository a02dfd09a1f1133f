"""Significance: a step-down maximum test of all pairs of encodings, and the tiers and places that follow.

Shapes: R encodings (rows), T tasks, P pairs of encodings, B replicates.

``python -m leaderboard.stats.simulation`` measures its errors and its power; the numbers are in ``leaderboard/RULES.md``.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from .scores import FUZZ, Scores

ALPHA = 0.05
"""Family-wise error rate: the largest probability of any false separation on a whole board."""
RISK = f"{100 * ALPHA:g} % by design, 1 to 8 % in simulations"
"""The family-wise error rate in words; the simulations are those of ``leaderboard/RULES.md``."""
REPLICATES = 10_000
PRIOR = 8
"""Degrees of freedom of the common variance of a task, in the variance of an encoding's runs: as many as nine runs have."""
CHUNK = 250
"""Replicates handled at once, which bounds the memory."""


def separation_ps(scores: Sequence[Scores], replicates: int = REPLICATES, seed: int = 0) -> Float[np.ndarray, " P"]:
    """Adjusted p of each pair of encodings: of the hypothesis that their true mean scores are equal.

    The probability that any pair with equal true means has p ≤ ``ALPHA`` is about ``ALPHA``, whatever the other pairs are
    (Romano & Wolf 2005, "Exact and Approximate Stepdown Methods for Multiple Hypothesis Testing", JASA 100). The statistic of a
    pair is its difference of mean scores over its standard error, t. The joint distribution of all t under the hypotheses is
    that of a wild bootstrap: residuals of the runs with random signs (Liu 1988, Annals of Statistics 16), independently for
    each run, drawn for all encodings at once. So the correction knows that pairs which share an encoding depend on each other.
    From the largest t down, p is the share of replicates whose largest t among the pairs not yet passed is at least the pair's.

    Five runs say little about their own variance, and five equal ones would make t infinite. So the variance of an encoding's
    runs on a task is averaged with the pooled variance of all encodings there, which counts as ``PRIOR`` degrees of freedom
    (Smyth 2004, Statistical Applications in Genetics and Molecular Biology 3); in the replicates too.

    Arguments:
        scores: of each encoding, the same tasks in the same order, at least two runs each; numbers of runs may differ.

    Returns:
        In the order of ``itertools.combinations``. At least 1/(replicates + 1).
    """
    count = len(scores)
    first, second = np.triu_indices(count, 1)
    if not len(first):
        return np.zeros(0)
    runs = np.array([[len(task) for task in tasks] for tasks in scores])[..., None]
    means = np.array([[task.mean() for task in tasks] for tasks in scores])[..., None]
    squares = np.array([[((task - task.mean()) ** 2).sum() for task in tasks] for tasks in scores])[..., None]
    observed = studentised(means, squares, runs, first, second)[:, 0]
    rng, flipped = np.random.default_rng(seed), np.empty((*means.shape[:2], replicates))
    for i, tasks in enumerate(scores):
        for j, task in enumerate(tasks):
            residuals = (task - task.mean()) / np.sqrt(len(task) * (len(task) - 1))  # with the variance of the mean
            flipped[i, j] = residuals @ rng.choice(np.array([-1.0, 1.0]), (len(task), replicates))
    order, beyond = np.argsort(observed, kind="stable"), np.zeros(len(observed), int)
    squares = squares * runs / (runs - 1)  # of the flipped residuals about 0
    for start in range(0, replicates, CHUNK):
        part = flipped[..., start : start + CHUNK]
        drawn = studentised(part, np.maximum(squares - runs * part**2, 0), runs, first, second)
        beyond += (np.maximum.accumulate(drawn[order]) >= observed[order][:, None] - FUZZ).sum(1)
    adjusted = np.empty(len(observed))
    adjusted[order] = np.maximum.accumulate(((1 + beyond) / (1 + replicates))[::-1])[::-1]
    return adjusted


def studentised(
    means: Float[np.ndarray, "R T B"],
    squares: Float[np.ndarray, "R T B"],
    runs: Int[np.ndarray, "R T 1"],
    first: Int[np.ndarray, " P"],
    second: Int[np.ndarray, " P"],
) -> Float[np.ndarray, "P B"]:
    """|t| of each pair of encodings.

    Arguments:
        means: of the runs of each encoding on each task.
        squares: their sums of squared deviations from their mean.
        runs: their numbers.
        first, second: indices of the encodings of each pair.
    """
    freedom = runs - 1
    common = squares.sum(0) / freedom.sum(0)
    variances = ((PRIOR * common + squares) / (PRIOR + freedom) / runs).sum(1) / means.shape[1] ** 2
    overall = means.mean(1)
    errors = np.sqrt(np.maximum(variances[first] + variances[second], FUZZ**2))
    return np.abs(overall[first] - overall[second]) / errors


def tiers(ahead: Bool[np.ndarray, "R R"]) -> list[int]:
    """Tier of each row: consecutive rows of which no two are separated; the next tier begins at the first row that is separated
    from any row of the tier.

    "Not separated" is not transitive: A and C may be separated although neither is separated from B. So no rule can let exactly
    the rows that are not separated share a tier. With this one, tiers never decrease down the table, and a larger variance
    cannot lift a row above rows with better scores.

    Arguments:
        ahead: ``ahead[i, j]`` is True where row i is separated from a later row j and ahead of it.
    """
    found: list[int] = []
    start = 0
    for row in range(len(ahead)):
        if new := not row or bool(ahead[start:row, row].any()):
            start = row
        found.append((found[-1] if found else 0) + new)
    return found


def possible_places(ahead: Bool[np.ndarray, "R R"]) -> list[tuple[int, int]]:
    """Places of each row: the best and the worst compatible with the tests.

    From 1 + the number of rows separated ahead of it, to the number of rows − the number separated behind it. These are
    simultaneous confidence sets for all true ranks if ``ahead`` controls the family-wise error rate (Mogstad, Romano, Shaikh &
    Wilhelm 2024, Review of Economic Studies).

    Arguments:
        ahead: as in ``tiers``.
    """
    upper = np.triu(ahead, 1)
    return list(zip((1 + upper.sum(0)).tolist(), (len(upper) - upper.sum(1)).tolist(), strict=True))
