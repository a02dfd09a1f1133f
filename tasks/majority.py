"""Majority: the bit that is more frequent. A further task, outside the five of the board.

``binary``, length 4; there is never a tie::

    <bos> 1 1 1 1 <sep> 1 <eos>

Every number of ones but a tie is equally likely, and then every order, as in lacoco-lab/length_generalization (`bin_majority`).
"""

import numpy as np
from jaxtyping import Int

from .base import Ragged, Task, Vocabulary, uniform_token_chance
from .sampling import random_ones


class Majority(Task):
    name = "majority"
    title = "Majority"
    variants = {"binary": "the more frequent bit"}
    length_is = "bits"

    def setup(self) -> None:
        self.vocabulary = Vocabulary.of(bit="01")

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        ones = rng.integers(lengths + lengths % 2)  # length + 1 numbers of ones, one less without the tie of an even length
        ones += (lengths % 2 == 0) & (2 * ones >= lengths)
        bits = random_ones(lengths, int(lengths.max(initial=0)), ones, rng)
        zero = self.vocabulary.first("bit")
        return Ragged.of(bits + zero, lengths), Ragged.of((2 * ones > lengths).astype(np.int64)[:, None] + zero)

    def widths(self, length: int) -> tuple[int, int]:
        return length, 1

    def chance(self, length: int) -> float:
        return 0.5

    def token_chance(self, length: int) -> float:
        return uniform_token_chance(1, 2)
