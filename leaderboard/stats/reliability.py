"""How far the order of a suite can be trusted: numbers about the suite, not about an encoding."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from .rates import at_an_end
from .rows import Board
from .scores import cells

FLOOR, CEILING = 0.02, 0.98
"""Chance-corrected scores at one length under and over which a cell says nothing about an order."""


def reliability(board: Board) -> dict[str, float | dict[str, float]]:
    """Numbers by name; NaN where there are too few blocks, rates or encodings.

    ``floor``, ``ceiling``: share of cells (encoding × run × length beyond L) at the floor and at the ceiling, by task.
    ``task``: reliability of a task's mean over blocks, among the better half. ``order``: generalisability of the overall score
    of the better half over blocks; ``over_rates``: over learning rates (one block each); ``alpha``: over tasks, Cronbach's α.
    ``at_an_end``: share of chosen rates at an end of the grid.
    """
    standard = ((board.rows["ranking"] == "standard") & board.rows["complete"]).to_numpy()
    places = board.order[np.flatnonzero(standard)]
    best = places[: max(2, (len(places) + 1) // 2)]
    beyond = {task: cells_beyond(board.runs[board.runs["task"] == task]) for task in board.tasks}
    return {
        "floor": {task: float((found < FLOOR).mean()) for task, found in beyond.items()},
        "ceiling": {task: float((found > CEILING).mean()) for task, found in beyond.items()},
        "task": {task: generalisability(board.scores[best][:, :, t]) for t, task in enumerate(board.tasks)},
        "order": generalisability(board.blocks[best]),
        "over_rates": generalisability(board.by_rate.iloc[best].to_numpy(float)),
        "alpha": generalisability(board.rows[standard][[f"score.{task}" for task in board.tasks]].to_numpy(float)[: len(best)]),
        "at_an_end": float(at_an_end(board.all_runs).mean()),
    }


def cells_beyond(runs: pd.DataFrame) -> Float[np.ndarray, " N"]:
    """The cells beyond L of a task's runs, by L."""
    groups = runs.groupby("train_length")
    return np.concatenate([cells(group)[:, group["length"].iloc[0] > length].ravel() for length, group in groups])


def generalisability(values: Float[np.ndarray, "R B"]) -> float:
    """Share of the variance of an encoding's mean that is due to the encoding: 1 − σ²_e/(B σ²_mean), over blocks of all rows.

    Two-way analysis of variance without replication; σ²_e is the interaction of encodings and blocks. Over tasks in place of
    blocks it is Cronbach's α (Hoyt 1941, Psychometrika 6). Below 0 if means differ less than chance alone makes them.
    """
    whole = ~np.isnan(values).any(0)
    values = values[:, whole] if whole.sum() > 1 else values[~np.isnan(values).any(1)]
    if min(values.shape) < 2 or not (of_means := values.mean(1).var(ddof=1)):
        return np.nan
    rest = values - values.mean(1, keepdims=True) - values.mean(0, keepdims=True) + values.mean()
    error = (rest**2).sum() / ((len(values) - 1) * (values.shape[1] - 1))
    return float(1 - error / values.shape[1] / of_means)
