"""How far the order of a suite can be trusted: numbers about the suite, not about an encoding."""

import numpy as np
import pandas as pd
from jaxtyping import Float

from .rates import at_an_end
from .rows import Board, means
from .scores import cells

FLOOR, CEILING = 0.02, 0.98
"""Chance-corrected scores at one length under and over which a cell says nothing about an order."""


def reliability(board: Board) -> dict[str, float | dict[str, float]]:
    """Numbers by name; NaN where there are too few blocks, rates or encodings.

    ``floor``, ``ceiling``: share of cells (encoding × run × length beyond L) at the floor and at the ceiling, by task.
    ``task``: reliability of a task's mean over blocks, among the better half. ``order``: generalisability of the overall score
    of the better half over blocks; ``over_rates``: over learning rates (one block each). ``alpha``: Cronbach's α over tasks,
    better half. ``halves``: mean Kendall's τ between the orders of two halves of the blocks. ``at_an_end``: share of chosen
    rates at an end of the grid.
    """
    standard = ((board.rows["ranking"] == "standard") & board.rows["complete"]).to_numpy()
    places = board.order[np.flatnonzero(standard)]
    best = places[: max(2, (len(places) + 1) // 2)]
    found: dict[str, float | dict[str, float]] = {"floor": {}, "ceiling": {}, "task": {}}
    for t, task in enumerate(board.tasks):
        runs = board.runs[board.runs["task"] == task]
        beyond = np.concatenate([one_length(group) for _, group in runs.groupby("train_length")])
        found["floor"][task] = float((beyond < FLOOR).mean())  # type: ignore[index]
        found["ceiling"][task] = float((beyond > CEILING).mean())  # type: ignore[index]
        found["task"][task] = generalisability(board.scores[best][:, :, t])  # type: ignore[index]
    blocks = board.blocks[best]
    return found | {
        "order": generalisability(blocks),
        "over_rates": generalisability(board.by_rate.iloc[best].dropna(axis=1, thresh=2).to_numpy(float)),
        "alpha": cronbach(means(board.scores[best].swapaxes(1, 2).reshape(-1, len(board.seeds))).reshape(len(best), -1)),
        "halves": halves(board.blocks[places]),
        "at_an_end": float(at_an_end(board.all_runs).mean()) if board.all_runs["learning_rate"].notna().any() else np.nan,
    }


def one_length(runs: pd.DataFrame) -> Float[np.ndarray, " N"]:
    """The cells beyond L of runs with equal lengths."""
    return cells(runs)[:, runs["length"].iloc[0] > runs["train_length"].iloc[0]].ravel()


def generalisability(values: Float[np.ndarray, "R B"]) -> float:
    """Share of the variance of an encoding's mean that is due to the encoding: σ²_r/(σ²_r + σ²_e/B), of complete rows.

    Two-way analysis of variance without replication; σ²_e is the interaction of encodings and blocks.
    """
    values = values[~np.isnan(values).any(1)]
    if min(values.shape) < 2:
        return np.nan
    count = values.shape[1]
    rest = values - values.mean(1, keepdims=True) - values.mean(0, keepdims=True) + values.mean()
    error = (rest**2).sum() / ((len(values) - 1) * (count - 1))
    of_rows = max(0.0, values.mean(1).var(ddof=1) - error / count)
    return float(of_rows / (of_rows + error / count)) if of_rows + error > 0 else np.nan


def cronbach(values: Float[np.ndarray, "R T"]) -> float:
    """Cronbach's α: how far the tasks measure one thing."""
    if min(values.shape) < 2 or np.isnan(values).any() or not values.sum(1).var(ddof=1):
        return np.nan
    count = values.shape[1]
    return float(count / (count - 1) * (1 - values.var(0, ddof=1).sum() / values.sum(1).var(ddof=1)))


def halves(blocks: Float[np.ndarray, "R B"], splits: int = 200) -> float:
    """Mean τ between the orders by two random halves of the blocks, of encodings that have all."""
    blocks = blocks[~np.isnan(blocks).any(1)]
    count = blocks.shape[1]
    if count < 2 or len(blocks) < 3:
        return np.nan
    rng, found = np.random.default_rng(0), []
    for _ in range(splits):
        order = rng.permutation(count)
        found.append(float(tau(blocks[:, order[: count // 2]].mean(1), blocks[:, order[count // 2 :]].mean(1))))
    return float(np.nanmean(found))


def tau(x: Float[np.ndarray, "*B N"], y: Float[np.ndarray, "*B N"]) -> Float[np.ndarray, "*B"]:
    """Kendall's τ-b along the last axis; NaN where one side is constant."""
    dx, dy = (np.sign(a[..., :, None] - a[..., None, :]) for a in (x, y))
    with np.errstate(invalid="ignore"):
        return (dx * dy).sum((-1, -2)) / np.sqrt((dx**2).sum((-1, -2)) * (dy**2).sum((-1, -2)))
