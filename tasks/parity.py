"""Parity: whether the number of ones among the bits is odd.

``answer``, length 4; the answer is one bit::

    <bos> 0 1 0 0 <sep> 1 <eos>

``scratchpad``, length 4; the answer is the parity of every prefix, the last one that of all bits::

    <bos> 1 1 0 1 <sep> 1 0 0 1 <eos>
"""

import numpy as np
from jaxtyping import Int

from .base import Ragged, Task, Vocabulary, uniform_token_chance


class Parity(Task):
    name = "parity"
    title = "Parity"
    variants = {"answer": "only the parity", "scratchpad": "the parity after every bit"}
    length_is = "bits"

    def setup(self) -> None:
        self.vocabulary = Vocabulary.of(bit="01")

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        zero = self.vocabulary.first("bit")
        bits = rng.integers(2, size=(len(lengths), int(lengths.max(initial=0))))
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
