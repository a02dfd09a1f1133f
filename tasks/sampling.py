"""Draws that several tasks share."""

import numpy as np
from jaxtyping import Int

FRACTION = 2**53
"""``Generator.random`` has 53 random bits: the upper ones of one 64-bit draw."""
INDEX_BITS = 11
"""What is left of the 64."""


def distinct(rng: np.random.Generator, rows: int, width: int, among: int) -> Int[np.ndarray, "rows width"]:
    """``width`` different numbers of 0 … among − 1 in each row, in random order, every ordered choice equally likely.

    Each number gets a random key, and those with the smallest keys are taken in the order of their keys.
    """
    if among > 1 << INDEX_BITS:
        return np.argsort(rng.random((rows, among)), axis=1)[:, :width]
    # The number stands in the bits that its key leaves free. So numbers can be sorted with their keys, several times as fast
    # as by way of the order of the keys.
    keys = rng.integers(1 << 64, size=(rows, among), dtype=np.uint64)
    keys &= np.uint64((FRACTION - 1) << INDEX_BITS)
    keys |= np.arange(among, dtype=np.uint64)
    keys.sort(axis=1)
    return (keys[:, :width] & np.uint64((1 << INDEX_BITS) - 1)).astype(np.int64)
