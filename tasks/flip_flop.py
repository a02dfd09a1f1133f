"""Flip-flop: read the bit that was written last. A further task, which boards do not rank.

``often``, length 4: *length* instructions, each with a bit: ``w`` writes it, ``i`` ignores it. The first one writes, and each
further one with probability .1. The answer is the bit of the last ``w``::

    <bos> w 1 i 0 i 1 w 1 <sep> 1 <eos>

``rarely``, length 4, with probability .01, so that the last write is farther back::

    <bos> w 1 i 0 i 1 i 0 <sep> 1 <eos>

This is flip-flop language modelling (Liu et al. 2023, *Exposing Attention Glitches with Flip-Flop Language Modeling*) with a
single read, at the end.
"""

import numpy as np
from jaxtyping import Int

from .base import Ragged, Task, Vocabulary

WRITES = {"often": 0.1, "rarely": 0.01}


class FlipFlop(Task):
    name = "flip_flop"
    title = "Flip-flop"
    variants = {"often": "a tenth of the instructions write", "rarely": "a hundredth of them"}
    length_is = "instructions"
    ranked = False

    def setup(self) -> None:
        self.vocabulary = Vocabulary.of(instruction="wi", bit="01")

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        count, width = len(lengths), int(lengths.max(initial=0))
        bits, writes = rng.integers(2, size=(count, width)), rng.random((count, width)) < WRITES[self.variant]
        writes[:, :1] = True
        places = np.arange(width)
        last = np.where(writes & (places < lengths[:, None]), places, 0).max(axis=1, initial=0)
        write, ignore, zero = (self.vocabulary.ids[symbol] for symbol in "wi0")
        pairs = np.stack([np.where(writes, write, ignore), bits + zero], axis=2).reshape(count, 2 * width)
        answer = np.take_along_axis(bits, last[:, None], axis=1) if width else bits
        return Ragged.of(pairs, 2 * lengths), Ragged.of(answer + zero)

    def widths(self, length: int) -> tuple[int, int]:
        return 2 * length, 1

    def chance(self, length: int) -> float:
        return 0.5
