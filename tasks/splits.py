"""Which examples a run trains and is tested on: counter-based streams, so that any batch can be made without those before it.

Each stream is a numpy ``Philox`` generator whose key is a hash of task, variant, longest length, split and seed, and whose
counter starts at the batch index. Test splits are keyed by the suite's own test seed alone: every run of a suite meets the same
test examples, whatever its training seed.
"""

import hashlib
from collections.abc import Iterable

import numpy as np

from .base import Examples, Task


def stream(task: Task, split: str, seed: int, index: int = 0) -> np.random.Generator:
    """The generator of one batch of one split; ``index`` is the batch index."""
    name = "/".join(map(str, (task.name, task.variant, task.longest, split, seed)))
    key = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], "<u8")
    # Philox counts blocks in the low words of its 256-bit counter; the batch index sits in the highest, so batches never meet.
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, index]))


def train_batch(task: Task, train_length: int, size: int, seed: int, step: int) -> Examples:
    """The training batch of one step: ``size`` examples, lengths uniform in 1 … ``train_length``, mixed.

    Raises:
        InputError: a training length outside 1 … ``longest``, whether or not this batch happens to draw one.
    """
    task.check_lengths(train_length, train_length)
    rng = stream(task, "train", seed, step)
    return task.sample(rng.integers(1, train_length, size=size, endpoint=True), size, rng)


def test_set(task: Task, length: int, count: int, test_seed: int) -> Examples:
    """The ``count`` test examples of one length.

    Raises:
        InputError: a length outside 1 … ``longest``.
    """
    return task.sample(length, count, stream(task, f"test_{length}", test_seed))


def content_hash(sets: Iterable[Examples]) -> str:
    """SHA-256 over tokens and answer starts of some example sets, in order: two equal hashes mean equal examples."""
    digest = hashlib.sha256()
    for examples in sets:
        for array in (examples.tokens, examples.answer_start, examples.sizes):
            digest.update(f"{array.shape}".encode())
            digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return digest.hexdigest()
