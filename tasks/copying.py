"""Copying: repeat the prompt.

``repeat``, length 4, from an alphabet of eight letters (setting ``letters``), so that symbols recur and only their positions
distinguish them::

    <bos> d h e d <sep> d h e d <eos>

``unique``, length 4, no symbol twice, so that content alone determines the next symbol::

    <bos> s16 s14 s15 s17 <sep> s16 s14 s15 s17 <eos>
"""

import numpy as np
from jaxtyping import Int

from .base import Ragged, Task, Vocabulary, uniform_token_chance
from .errors import InputError
from .sampling import distinct

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Copying(Task):
    name = "copying"
    title = "Copying"
    variants = {"repeat": "eight letters, which recur", "unique": "no symbol twice"}
    length_is = "symbols to copy"
    defaults = {"letters": 8}

    def setup(self) -> None:
        if not 2 <= (letters := self.settings["letters"]) <= len(LETTERS):
            raise InputError(f"{self.name}: letters must be from 2 to {len(LETTERS)}, got {letters}")
        symbols = LETTERS[:letters] if self.variant == "repeat" else [f"s{i}" for i in range(2 * self.longest)]
        self.vocabulary = Vocabulary.of(symbol=symbols)
        self.count = len(symbols)

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        shape = (len(lengths), int(lengths.max(initial=0)))
        drawn = distinct(rng, *shape, self.count) if self.variant == "unique" else rng.integers(self.count, size=shape)
        symbols = Ragged.of(drawn + self.vocabulary.first("symbol"), lengths)
        return symbols, symbols

    def widths(self, length: int) -> tuple[int, int]:
        return length, length

    def chance(self, length: int) -> float:
        choices = self.count - np.arange(length) if self.variant == "unique" else np.full(length, self.count)
        return float(np.exp(-np.log(choices).sum()))

    def token_chance(self, length: int) -> float:
        return uniform_token_chance(self.widths(length)[1], self.count)
