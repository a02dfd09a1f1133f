"""Which examples a run trains and is tested on: counter-based streams, so that any batch can be made without those before it.

Each stream is a numpy ``Philox`` generator whose key is a hash of task, variant, longest length, split and seed, and whose
counter starts at the index of the draw. Test splits are keyed by the suite's own test seed alone: every run of a suite meets
the same test examples, whatever its training seed.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from .base import Examples, Task

BLOCK = 16
"""Steps whose training batches come from one draw."""


def stream(task: Task, split: str, seed: int, index: int = 0) -> np.random.Generator:
    """The generator of one draw of one split; ``index`` counts draws."""
    name = "/".join(map(str, (task.name, task.variant, task.longest, split, seed)))
    key = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], "<u8")
    # Philox counts blocks in the low words of its 256-bit counter; the index sits in the highest, so draws never meet.
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, index]))


def train_batch(task: Task, train_length: int, size: int, seed: int, step: int) -> Examples:
    """The training batch of one step: ``size`` examples, lengths uniform in 1 … ``train_length``, mixed.

    Raises:
        InputError: a training length outside 1 … ``longest``, whether or not this batch happens to draw one.
    """
    task.check_lengths(train_length, train_length)
    block, at = divmod(step, BLOCK)
    batch = train_block(task, train_length, size, seed, block).rows(slice(at * size, (at + 1) * size))
    # Slices are views, and the block is kept: whoever writes into a batch must not write into that.
    return Examples(batch.tokens.copy(), batch.answer_start.copy(), batch.sizes.copy(), batch.lengths.copy())


@lru_cache(2)
def train_block(task: Task, train_length: int, size: int, seed: int, block: int) -> Examples:
    """The batches of ``BLOCK`` steps, one after the other: drawn at once, since a draw costs little more than a call."""
    rng = stream(task, "train", seed, block)
    return task.sample(rng.integers(1, train_length, size=BLOCK * size, endpoint=True), BLOCK * size, rng)


def test_set(task: Task, length: int, count: int, test_seed: int) -> Examples:
    """The ``count`` test examples of one length.

    Raises:
        InputError: a length outside 1 … ``longest``.
    """
    return task.sample(length, count, stream(task, f"test_{length}", test_seed))


def content_hash(sets: Iterable[Examples]) -> str:
    """SHA-256 over tokens, answer starts and sizes of some example sets, in order: two equal hashes mean equal examples."""
    digest = hashlib.sha256()
    for examples in sets:
        for array in (examples.tokens, examples.answer_start, examples.sizes):
            digest.update(f"{array.shape}".encode())
            digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()
