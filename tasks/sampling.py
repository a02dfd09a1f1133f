"""Draws that several tasks share."""

import numpy as np
from jaxtyping import Int


def distinct(rng: np.random.Generator, rows: int, width: int, among: int) -> Int[np.ndarray, "rows width"]:
    """``width`` different numbers of 0 … among − 1 in each row, in random order, every ordered choice equally likely."""
    keys = rng.random((rows, among))
    if width < among:
        # The `width` smallest keys are a random subset; sorting only those puts it in random order.
        chosen = np.argpartition(keys, width, axis=1)[:, :width] if width else np.empty((rows, 0), np.int64)
        order = np.argsort(np.take_along_axis(keys, chosen, 1), axis=1)
        return np.take_along_axis(chosen, order, 1)
    return np.argsort(keys, axis=1)
