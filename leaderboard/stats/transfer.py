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
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from numpy.typing import ArrayLike

from .rows import Board

REPLICATES = 10_000
LOWER_IS_BETTER = {"far": True, "rise": True, "worth": False}
MEASURES = {
    "near": "bits per character with L characters in view",
    "far": "bits per character at the longest length",
    "rise": "bits at the longest length minus bits at L",
    "worth": "bits that are lost if the text before the last L characters is from another document",
    "needle": "share of right answers to a question about the beginning of the text",
}
"""Column → meaning; each at the longest length but ``near``, and at the chosen learning rate."""


def of_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """The columns ``MEASURES`` of each run; a diverged one has the bits of uniform guessing, also as its rise."""
    last = {name: np.array([cell[-1] for cell in runs[name]]) for name in ("nll", "nll_other", "needle")}
    pairs = zip(runs["nll"], runs["length"], runs["train_length"], strict=True)
    near = np.array([loss[np.searchsorted(lengths, length)] for loss, lengths, length in pairs])
    found = pd.DataFrame({"near": near / np.log(2), "far": last["nll"] / np.log(2)}, index=runs.index)
    found = found.assign(rise=found["far"] - found["near"], needle=last["needle"])
    found["worth"] = (last["nll_other"] - last["nll"]) / np.log(2)
    return found.fillna({"worth": 0.0, "needle": 0.0}).apply(lambda bits: bits.fillna(np.log2(runs["symbols"])))


def measured(board: Board, ranking: str = "standard") -> pd.DataFrame:
    """Encoding × ``MEASURES``, means over seeds, with ``rise_low`` and ``rise_high``; the best ``far`` first.

    Encodings of one ranking class that have all seeds of the board. The interval is Student's t of each encoding's own
    seeds: where attention breaks down, rises spread a hundred times as far as where it does not.
    """
    from scipy.stats import t

    named = board.rows[(board.rows["ranking"] == ranking) & (board.rows["blocks"] == len(board.seeds))]
    runs = board.runs[board.runs["encoding"].isin(named["encoding"])]
    values = of_runs(runs).assign(encoding=runs["encoding"], seed=runs["seed"])
    found = values.groupby("encoding", observed=True)[[*MEASURES]].mean()
    if len(found):
        rise = values.groupby("encoding", observed=True)["rise"]
        half = rise.sem() * t.ppf(0.975, rise.count() - 1)
        found["rise_low"], found["rise_high"] = found["rise"] - half, found["rise"] + half
    places = named.set_index("encoding")[["rank_low", "rank_high"]]
    return found.join(places).sort_values("far", kind="stable")


def compare(synthetic: Board, text: pd.DataFrame, most: int = 5) -> dict[str, Any] | None:
    """How far scores of a synthetic suite go with the frame of ``measured``; None with fewer than five encodings in both.

    Returns:
        ``taus`` by task and measure, see ``transfer``; τ of ``rise`` with its prediction by ``weighted`` tasks and by ``equal``
        weights, see ``predicted``; the share of bootstrap samples in which weights are ``better``; the encodings whose ranks
        are the farthest ``apart``, with columns score, rise, rank_score and rank_rise.
    """
    both = text.join(scores_of(synthetic), how="inner").sort_index()
    if len(both) < 5:
        return None
    predictions = predicted(both, synthetic.tasks)
    found = {name: float(tau(predictions[name], -predictions["rise"])) for name in ("weighted", "equal")}
    places = both[["overall", "rise"]].set_axis(["score", "rise"], axis=1)
    places = places.assign(rank_score=places["score"].rank(ascending=False), rank_rise=places["rise"].rank())
    far = (places["rank_score"] - places["rank_rise"]).abs().sort_values(ascending=False, kind="stable").index[:most]
    taus = transfer(both, [*synthetic.tasks, "overall"])
    return found | {"taus": taus, "better": share_better(predictions), "apart": places.loc[far]}


def scores_of(board: Board) -> pd.DataFrame:
    """Encoding × score on each task, and ``overall``; complete rows of the class ``standard``."""
    rows = board.rows[(board.rows["ranking"] == "standard") & board.rows["complete"]].set_index("encoding")
    return rows[[f"score.{task}" for task in board.tasks]].set_axis(board.tasks, axis=1).assign(overall=rows["score"])


def across(one: Board, other: Board) -> dict[str, dict[str, float]] | None:
    """How far the scores of two suites with the same tasks agree, by task and ``overall``: see ``agreement``.

    None with fewer than five encodings in both.
    """
    ours, theirs = scores_of(one), scores_of(other)
    names = ours.index.intersection(theirs.index).sort_values()
    return {score: agreement(ours.loc[names, score], theirs.loc[names, score]) for score in ours} if len(names) >= 5 else None


def agreement(x: pd.Series, y: pd.Series) -> dict[str, float]:
    """Kendall's τ of two measures, its 95 % interval (``low``, ``high``), and the number of ``encodings``."""
    low, high = np.nanquantile(tau(x, y, samples(len(x))), [0.025, 0.975])
    return {"tau": float(tau(x, y)), "low": low, "high": high, "encodings": len(x)}


def tau(x: ArrayLike, y: ArrayLike, counts: Float[np.ndarray, "*B N"] | None = None) -> Float[np.ndarray, "*B"]:
    """Kendall's τ-b; NaN where one side is constant.

    Arguments:
        counts: how often each sample holds each value: the sums over pairs are quadratic forms of these; None: once.
    """
    dx, dy = (np.sign(a[:, None] - a) for a in (np.asarray(x, float), np.asarray(y, float)))
    times = np.ones(len(dx)) if counts is None else counts
    both, of_x, of_y = ((times @ signs * times).sum(-1) for signs in (dx * dy, dx**2, dy**2))
    with np.errstate(invalid="ignore"):
        return both / np.sqrt(of_x * of_y)


def samples(count: int) -> Float[np.ndarray, "B N"]:
    """Bootstrap samples of encodings, always the same: how often each sample holds each encoding."""
    drawn = np.random.default_rng(0).integers(count, size=(REPLICATES, count, 1))
    return (drawn == np.arange(count)).sum(1).astype(float)


def transfer(both: pd.DataFrame, scores: Sequence[str]) -> pd.DataFrame:
    """τ and its interval for each synthetic score and each measure of text.

    Arguments:
        both: encoding × synthetic scores, and measures of text.
        scores: columns of synthetic scores.

    Returns:
        Score and measure × tau, low, high, encodings.
    """
    found = {
        (score, measure): agreement(both[score], both[measure] * (-1 if lower else 1))
        for score, (measure, lower) in product(scores, LOWER_IS_BETTER.items())
    }
    return pd.DataFrame([*found.values()], pd.MultiIndex.from_tuples(found))


def predicted(both: pd.DataFrame, tasks: Sequence[str]) -> pd.DataFrame:
    """Ranks of ``rise`` predicted for each encoding from the others by weights of tasks, and by equal weights.

    Returns:
        Index: encoding. Columns: rise (rank, 1 is the smallest), weighted, equal (larger is better).
    """
    from scipy.optimize import nnls

    x, rise = both[[*tasks]].rank().to_numpy(), both["rise"]
    weighted = np.empty(len(both))
    for left_out in range(len(both)):
        others = np.arange(len(both)) != left_out
        y = (-rise[others]).rank().to_numpy()
        mean_x, mean_y = x[others].mean(0), y.mean()
        weights, _ = nnls(x[others] - mean_x, y - mean_y)
        weighted[left_out] = mean_y + (x[left_out] - mean_x) @ weights
    return pd.DataFrame({"rise": rise.rank(), "weighted": weighted, "equal": x.mean(1)})


def share_better(predictions: pd.DataFrame) -> float:
    """Share of bootstrap samples of encodings in which weights predict ``rise`` better (in τ) than equal weights."""
    counts = samples(len(predictions))
    weighted, equal = (tau(predictions[name], -predictions["rise"], counts) for name in ("weighted", "equal"))
    return float(np.nanmean(weighted > equal))
