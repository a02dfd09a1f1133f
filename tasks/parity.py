"""Parity: whether the number of ones among the bits is odd.

``answer``, length 4; the answer is one bit::

    <bos> 0 1 0 0 <sep> 1 <eos>

``scratchpad``, length 4; the answer is the parity of every prefix, the last one that of all bits::

    <bos> 1 1 0 1 <sep> 1 0 0 1 <eos>

``few_ones``, length 4, one to four ones at any length, so that they become rarer but not more: a model can count to four
where the others ask it to track a state. The answer is one bit::

    <bos> 1 0 0 0 <sep> 1 <eos>

In ``few_ones``, even and odd numbers of ones are equally likely, then 2, 4 or 1, 3 ones that fit (0 or 1 in a single bit),
then their places.
"""

import numpy as np
from jaxtyping import Int

from .base import Ragged, Task, Vocabulary, uniform_token_chance
from .sampling import random_ones

FEW = 4
"""The greatest number of ones in ``few_ones``."""


class Parity(Task):
    name = "parity"
    title = "Parity"
    variants = {
        "answer": "only the parity",
        "scratchpad": "the parity after every bit",
        "few_ones": "only the parity, at most four ones",
    }
    length_is = "bits"

    def setup(self) -> None:
        self.vocabulary = Vocabulary.of(bit="01")

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        zero, shape = self.vocabulary.first("bit"), (len(lengths), int(lengths.max(initial=0)))
        bits = few_ones(lengths, shape[1], rng) if self.variant == "few_ones" else rng.integers(2, size=shape)
        running = bits.cumsum(1) % 2
        prompt = Ragged.of(bits + zero, lengths)
        if self.variant == "scratchpad":
            return prompt, Ragged.of(running + zero, lengths)
        return prompt, Ragged.of(np.take_along_axis(running, lengths[:, None] - 1, axis=1) + zero)

    def widths(self, length: int) -> tuple[int, int]:
        return length, length if self.variant == "scratchpad" else 1

    def chance(self, length: int) -> float:
        return 0.5 ** self.widths(length)[1]

    def token_chance(self, length: int) -> float:
        return uniform_token_chance(self.widths(length)[1], 2)


def few_ones(lengths: Int[np.ndarray, " N"], width: int, rng: np.random.Generator) -> Int[np.ndarray, "N {width}"]:
    """Rows with up to ``FEW`` ones, all within the first ``lengths[n]`` bits of row n."""
    odd, most = rng.integers(2, size=len(lengths)), np.minimum(lengths, FEW)
    ones = np.where(most < 2, odd, 2 - odd + 2 * rng.integers(0, np.maximum(0, most - 2 + odd) // 2, endpoint=True))
    return random_ones(lengths, width, ones, rng)
