"""What runs on real text measure, in bits per character: one row per encoding, and its comparison with synthetic tasks."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from . import ranks
from .rows import Board
from .transfer import predicted, share_better, tau, transfer

MEASURES = {
    "near": "bits per character with L characters in view",
    "far": "bits per character at the longest length",
    "rise": "bits at the longest length minus bits at L",
    "worth": "bits that are lost if the text before the last L characters is from another document",
    "needle": "share of right answers to a question about the beginning of the text",
}
"""Column → meaning; each at the longest length but ``near``, and at the chosen learning rate."""


def of_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """The columns ``MEASURES`` of each run; bits of a run that diverged are infinite."""
    last = {name: np.array([cell[-1] for cell in runs[name]]) for name in ("nll", "nll_other", "needle")}
    pairs = zip(runs["nll"], runs["length"], runs["train_length"], strict=True)
    near = np.array([loss[np.searchsorted(lengths, length)] for loss, lengths, length in pairs])
    bits = {"near": near / np.log(2), "far": last["nll"] / np.log(2)}
    worth = (last["nll_other"] - last["nll"]) / np.log(2)
    found = bits | {"rise": bits["far"] - bits["near"], "worth": worth, "needle": last["needle"]}
    return pd.DataFrame(found, index=runs.index)


def measured(board: Board) -> pd.DataFrame:
    """Encoding × ``MEASURES``, means over seeds, with ``rise_low`` and ``rise_high``; the best ``far`` first.

    Encodings of the class ``standard`` that have all seeds of the board. The interval is Student's t, see ``ranks.moderated``.
    """
    named = board.rows[(board.rows["ranking"] == "standard") & (board.rows["blocks"] == len(board.seeds))]
    runs = board.runs[board.runs["encoding"].isin(named["encoding"])]
    values = of_runs(runs).assign(encoding=runs["encoding"], seed=runs["seed"])
    found = values.groupby("encoding", observed=True)[[*MEASURES]].mean()
    if len(found):
        rise = values.pivot(index="encoding", columns="seed", values="rise").reindex(found.index).to_numpy(float)
        found[["rise_low", "rise_high"]] = ranks.interval(rise, limits=(-np.inf, np.inf))
    places = named.set_index("encoding")[["rank_low", "rank_high"]]
    return found.join(places).sort_values("far", kind="stable")


@dataclass(frozen=True)
class Comparison:
    """How far scores of a synthetic suite go with one text suite: see ``transfer``."""

    taus: pd.DataFrame
    weighted: float
    """τ of ``rise`` with its prediction by weights of tasks, fitted without the encoding that is predicted."""
    equal: float
    """The same with equal weights."""
    better: float
    """Share of bootstrap samples in which weights predict better."""
    apart: pd.DataFrame
    """The encodings whose ranks differ most: columns score, rise, rank_score, rank_rise."""


def compare(synthetic: Board, text: pd.DataFrame, most: int = 5) -> Comparison | None:
    """The comparison of a synthetic suite with the frame of ``measured``; None with fewer than five encodings in both."""
    rows = synthetic.rows[(synthetic.rows["ranking"] == "standard") & synthetic.rows["complete"]].set_index("encoding")
    scores = rows[[f"score.{task}" for task in synthetic.tasks]].set_axis(synthetic.tasks, axis=1).assign(overall=rows["score"])
    both = text.join(scores, how="inner")
    if len(both) < 5:
        return None
    predictions = predicted(scores, text, synthetic.tasks)
    rise = -predictions["rise"].to_numpy(float)
    weighted, equal = (float(tau(predictions[name].to_numpy(float), rise)) for name in ("weighted", "equal"))
    places = pd.DataFrame({"score": both["overall"], "rise": both["rise"]})
    places["rank_score"], places["rank_rise"] = places["score"].rank(ascending=False), places["rise"].rank()
    apart = (places["rank_score"] - places["rank_rise"]).abs().sort_values(ascending=False, kind="stable").index[:most]
    return Comparison(transfer(scores, text), weighted, equal, share_better(predictions), places.loc[apart])
