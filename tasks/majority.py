"""Majority: the most frequent symbol. A further task, outside the five of the board.

``binary``, length 4; there is never a tie::

    <bos> 1 1 1 1 <sep> 1 <eos>

Every number of ones but a tie is equally likely, and then every order, as in lacoco-lab/length_generalization (`bin_majority`).

``letters``, length 4, of the alphabet; every string without a tie for the first place is equally likely (`majority` there)::

    <bos> k k m p <sep> k <eos>
"""

import numpy as np
from jaxtyping import Int

from .base import Ragged, Task, Vocabulary, uniform_token_chance
from .copying import LETTERS
from .sampling import random_ones


class Majority(Task):
    name = "majority"
    title = "Majority"
    variants = {"binary": "the more frequent bit", "letters": "the most frequent letter"}
    length_is = "symbols"

    def setup(self) -> None:
        self.symbols = LETTERS if self.variant == "letters" else "01"
        self.vocabulary = Vocabulary.of(**{"bit" if self.symbols == "01" else "letter": self.symbols})

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        if self.variant == "letters":
            return self._letters(lengths, rng)
        ones = rng.integers(lengths + lengths % 2)  # length + 1 numbers of ones, one less without the tie of an even length
        ones += (lengths % 2 == 0) & (2 * ones >= lengths)
        bits = random_ones(lengths, int(lengths.max(initial=0)), ones, rng)
        zero = self.vocabulary.first("bit")
        return Ragged.of(bits + zero, lengths), Ragged.of((2 * ones > lengths).astype(np.int64)[:, None] + zero)

    def _letters(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        count, width = len(lengths), int(lengths.max(initial=0))
        letters, todo = np.zeros((count, width), np.int64), np.arange(count)
        often = np.zeros((count, len(LETTERS)), np.int64)
        while len(todo):
            drawn = rng.integers(len(LETTERS), size=(len(todo), width))
            inside = np.arange(width) < lengths[todo, None]
            letters[todo], often[todo] = drawn, ((drawn[..., None] == np.arange(len(LETTERS))) & inside[..., None]).sum(1)
            todo = todo[np.diff(np.partition(often[todo], -2, axis=1)[:, -2:], axis=1)[:, 0] == 0]
        first = self.vocabulary.first("letter")
        return Ragged.of(letters + first, lengths), Ragged.of(often.argmax(1)[:, None] + first)

    def widths(self, length: int) -> tuple[int, int]:
        return length, 1

    def chance(self, length: int) -> float:
        return 1 / len(self.symbols)

    def token_chance(self, length: int) -> float:
        return uniform_token_chance(1, len(self.symbols))
