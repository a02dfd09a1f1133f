"""Sampling functions shared by several tasks."""

import numpy as np
from jaxtyping import Int

FRACTION = 2**53
"""``Generator.random`` has 53 random bits: the upper ones of one 64-bit draw."""
INDEX_BITS = 11
"""The remaining bits of the 64."""


def distinct(rng: np.random.Generator, rows: int, width: int, among: int) -> Int[np.ndarray, "rows width"]:
    """Draw ``width`` different numbers from 0 … among − 1 for each row; every ordered choice is equally likely.

    Each number gets a random sort key; the numbers with the smallest keys are returned in the order of their keys.
    """
    if among > 1 << INDEX_BITS:
        return np.argsort(rng.random((rows, among)), axis=1)[:, :width]
    # Store the number in the low bits that its key does not use, and sort both together: several times faster than argsort.
    keys = rng.integers(1 << 64, size=(rows, among), dtype=np.uint64)
    keys &= np.uint64((FRACTION - 1) << INDEX_BITS)
    keys |= np.arange(among, dtype=np.uint64)
    keys.sort(axis=1)
    return (keys[:, :width] & np.uint64((1 << INDEX_BITS) - 1)).astype(np.int64)


def random_ones(
    lengths: Int[np.ndarray, " N"], width: int, ones: Int[np.ndarray, " N"], rng: np.random.Generator
) -> Int[np.ndarray, "N {width}"]:
    """Rows of bits with ``ones[n]`` ones at random places of the first ``lengths[n]``."""
    order = np.where(np.arange(width) < lengths[:, None], rng.random((len(lengths), width)), 1.0)
    return (order.argsort(axis=1).argsort(axis=1) < ones[:, None]).astype(np.int64)  # rank of a place < number of ones
