"""Does the order on synthetic tasks say anything about text? The rule, fixed before the runs that it judges.

Encodings: all that have a complete row in the synthetic suite and in the text suite, in the class ``standard``; none is left
out. Measures of text, each at the chosen learning rate, mean over seeds, lower is better for the first two and higher for the
third:

``far``: bits per character at the longest length (8 L).
``rise``: bits at 8 L minus bits at L.
``worth``: bits at 8 L with the far text replaced by text of another document, minus bits with the true text.

For each synthetic task, and for the overall score, the association is Kendall's τ-b with the measure, signed so that 1 means "a
better synthetic score goes with better text". Its 95 % interval is the percentile interval of 10,000 bootstrap samples of
encodings. A task *transfers* if the interval of its τ with ``rise`` lies above 0 on both corpora.

Weights of tasks: non-negative least squares of the ranks of ``rise`` on the ranks of the task scores, fitted without the
encoding that is predicted. They *predict better than equal weights* if τ of these predictions is above τ of the equally
weighted score in 95 % of the bootstrap samples. The board does not rank by them.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

REPLICATES = 10_000
LOWER_IS_BETTER = {"far": True, "rise": True, "worth": False}


def tau(x: Float[np.ndarray, "*B N"], y: Float[np.ndarray, "*B N"]) -> Float[np.ndarray, "*B"]:
    """Kendall's τ-b along the last axis; NaN where one side is constant."""
    dx, dy = (np.sign(a[..., :, None] - a[..., None, :]) for a in (x, y))
    with np.errstate(invalid="ignore"):
        return (dx * dy).sum((-1, -2)) / np.sqrt((dx**2).sum((-1, -2)) * (dy**2).sum((-1, -2)))


def transfer(scores: pd.DataFrame, text: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """τ and its interval for each synthetic score and each measure of text.

    Arguments:
        scores: encoding × synthetic scores (a column a task, and ``overall``).
        text: encoding × measures, the columns of ``LOWER_IS_BETTER``.

    Returns:
        Task and measure × tau, low, high, encodings.
    """
    names = sorted(set(scores.index) & set(text.index))
    draws = np.random.default_rng(seed).integers(len(names), size=(REPLICATES, len(names)))
    found = []
    for task in scores.columns:
        for measure, lower in LOWER_IS_BETTER.items():
            x = scores.loc[names, task].to_numpy(float)
            y = text.loc[names, measure].to_numpy(float) * (-1 if lower else 1)
            low, high = np.nanquantile(in_parts(x, y, draws), [0.025, 0.975])
            found.append((task, measure, float(tau(x, y)), float(low), float(high), len(names)))
    return pd.DataFrame(found, columns=["task", "measure", "tau", "low", "high", "encodings"]).set_index(["task", "measure"])


def in_parts(
    x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"], draws: Int[np.ndarray, "B N"], size: int = 500
) -> Float[np.ndarray, " B"]:
    """τ of each bootstrap sample, some hundred at a time to bound the memory."""
    return np.concatenate([tau(x[part], y[part]) for part in np.split(draws, range(size, len(draws), size))])


def predicted(scores: pd.DataFrame, text: pd.DataFrame, tasks: Sequence[str]) -> pd.DataFrame:
    """Ranks of ``rise`` predicted for each encoding from the others by weights of tasks, and by equal weights.

    Returns:
        Index: encoding. Columns: rise (rank, 1 is the smallest), weighted, equal (larger is better).
    """
    from scipy.optimize import nnls
    from scipy.stats import rankdata

    names = sorted(set(scores.index) & set(text.index))
    x = np.column_stack([rankdata(scores.loc[names, task]) for task in tasks])
    rise = text.loc[names, "rise"].to_numpy(float)
    weighted = np.empty(len(names))
    for left_out in range(len(names)):
        others = np.arange(len(names)) != left_out
        y = rankdata(-rise[others])
        mean_x, mean_y = x[others].mean(0), y.mean()
        weights, _ = nnls(x[others] - mean_x, y - mean_y)
        weighted[left_out] = mean_y + (x[left_out] - mean_x) @ weights
    return pd.DataFrame({"rise": rankdata(rise), "weighted": weighted, "equal": x.mean(1)}, index=names)


def share_better(predictions: pd.DataFrame, seed: int = 0) -> float:
    """Share of bootstrap samples of encodings in which the weighted prediction has a higher τ with ``rise`` than equal
    weights."""
    draws = np.random.default_rng(seed).integers(len(predictions), size=(REPLICATES, len(predictions)))
    rise = -predictions["rise"].to_numpy(float)
    weighted, equal = (in_parts(predictions[name].to_numpy(float), rise, draws) for name in ("weighted", "equal"))
    return float(np.nanmean(weighted > equal))
