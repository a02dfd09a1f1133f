"""Training batches, drawn from counter-based streams, so that any batch can be drawn without the earlier ones.

Each stream is a numpy ``Philox`` generator. Its key is a hash of task, variant, longest length, split and seed; its counter
starts at the index of the draw. Test splits use the suite's test seed instead of the training seed, so every run of a suite has
the same test examples.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from .base import Examples, Task, stream

BLOCK = 16
"""Number of steps whose training batches are drawn together."""


def train_batch(task: Task, train_length: int, size: int, seed: int, step: int, shortest: int = 1) -> Examples:
    """Return the training batch of one step: ``size`` examples, with lengths uniform in ``shortest`` … ``train_length``.

    Raises:
        InputError: a training length outside 1 … ``longest``, even if this batch does not draw that length.
    """
    task.check_lengths(train_length, train_length)
    block, index = divmod(step, BLOCK)
    rows = np.arange(index * size, (index + 1) * size)  # a slice would be a view of the cached block; callers may write
    return train_block(task, train_length, size, seed, block, shortest).rows(rows)


@lru_cache(2)
def train_block(task: Task, train_length: int, size: int, seed: int, block: int, shortest: int) -> Examples:
    """Return the batches of ``BLOCK`` steps, concatenated. Drawn together, since small draws are mostly overhead."""
    rng = stream(task, "train", seed, block)
    return task.sample(rng.integers(shortest, train_length, size=BLOCK * size, endpoint=True), BLOCK * size, rng)


def content_hash(sets: Iterable[Examples]) -> str:
    """Return the SHA-256 of tokens, answer starts and sizes of example sets, in order. Equal hashes mean equal examples."""
    digest = hashlib.sha256()
    for examples in sets:
        for array in (examples.tokens, examples.answer_start, examples.sizes):
            digest.update(f"{array.shape}".encode())
            digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()
