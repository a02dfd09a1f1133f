"""Sorting: write the numbers of the prompt in ascending order.

``unique``, length 4, no number twice; there are twice as many numbers as the longest length::

    <bos> 9 14 5 8 <sep> 5 8 9 14 <eos>

``repeat``, length 4, numbers may recur; there are as many numbers as the longest length, so that ties are common::

    <bos> 6 1 6 2 <sep> 1 2 6 6 <eos>
"""

import math

import numpy as np
from jaxtyping import Int

from .base import Ragged, Task, Vocabulary
from .sampling import distinct


class Sorting(Task):
    name = "sorting"
    title = "Sorting"
    variants = {"unique": "no number twice", "repeat": "numbers may recur"}
    length_is = "numbers to sort"

    def setup(self) -> None:
        self.count = 2 * self.longest if self.variant == "unique" else self.longest
        self.vocabulary = Vocabulary.of(number=[str(i) for i in range(self.count)])

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        shape = (len(lengths), int(lengths.max(initial=0)))
        drawn = distinct(rng, *shape, self.count) if self.variant == "unique" else rng.integers(self.count, size=shape)
        numbers = Ragged.of(drawn + self.vocabulary.first("number"), lengths)
        # Columns past the end of a row get a value greater than any number, so that sorting leaves them there.
        ascending = np.sort(np.where(numbers.mask, numbers.values, len(self.vocabulary)), axis=1)
        return numbers, Ragged.of(ascending, lengths)

    def widths(self, length: int) -> tuple[int, int]:
        return length, length

    def chance(self, length: int) -> float:
        """For ``repeat``, the probability of the most likely answers: those without a tie."""
        if self.variant == "unique":
            return 1 / math.comb(self.count, length)
        return math.factorial(length) / self.count**length
