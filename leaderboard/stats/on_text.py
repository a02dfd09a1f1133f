"""What runs on real text measure, in bits per character: one row per encoding, and its comparison with synthetic tasks."""

from typing import Any

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
    """The columns ``MEASURES`` of each run; a diverged one has the bits of uniform guessing, also as its rise."""
    last = {name: np.array([cell[-1] for cell in runs[name]]) for name in ("nll", "nll_other", "needle")}
    pairs = zip(runs["nll"], runs["length"], runs["train_length"], strict=True)
    near = np.array([loss[np.searchsorted(lengths, length)] for loss, lengths, length in pairs])
    found = pd.DataFrame({"near": near / np.log(2), "far": last["nll"] / np.log(2)}, index=runs.index)
    found = found.assign(rise=found["far"] - found["near"], needle=last["needle"])
    found["worth"] = (last["nll_other"] - last["nll"]) / np.log(2)
    return found.fillna({"worth": 0.0, "needle": 0.0}).apply(lambda bits: bits.fillna(np.log2(runs["symbols"])))


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


def compare(synthetic: Board, text: pd.DataFrame, most: int = 5) -> dict[str, Any] | None:
    """How far scores of a synthetic suite go with the frame of ``measured``; None with fewer than five encodings in both.

    Returns:
        ``taus`` by task and measure, see ``transfer``; τ of ``rise`` with its prediction by ``weighted`` tasks and by ``equal``
        weights, see ``predicted``; the share of bootstrap samples in which weights are ``better``; the encodings whose ranks
        are the farthest ``apart``, with columns score, rise, rank_score and rank_rise.
    """
    rows = synthetic.rows[(synthetic.rows["ranking"] == "standard") & synthetic.rows["complete"]].set_index("encoding")
    scores = rows[[f"score.{task}" for task in synthetic.tasks]].set_axis(synthetic.tasks, axis=1).assign(overall=rows["score"])
    both = text.join(scores, how="inner")
    if len(both) < 5:
        return None
    predictions = predicted(scores, text, synthetic.tasks)
    found = {name: float(tau(predictions[name].to_numpy(), -predictions["rise"].to_numpy())) for name in ("weighted", "equal")}
    places = both[["overall", "rise"]].set_axis(["score", "rise"], axis=1)
    places = places.assign(rank_score=places["score"].rank(ascending=False), rank_rise=places["rise"].rank())
    far = (places["rank_score"] - places["rank_rise"]).abs().sort_values(ascending=False, kind="stable").index[:most]
    return found | {"taus": transfer(scores, text), "better": share_better(predictions), "apart": places.loc[far]}
