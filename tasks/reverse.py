"""Reversal: repeat the prompt backwards. A further task, which boards do not rank.

``repeat``, length 4, of the letters of ``copying``::

    <bos> e d h b <sep> b h d e <eos>

``unique``, length 4, no symbol twice::

    <bos> s8 s13 s15 s19 <sep> s19 s15 s13 s8 <eos>
"""

import numpy as np
from jaxtyping import Int

from .base import Ragged
from .copying import Copying


class Reverse(Copying):
    name = "reverse"
    title = "Reversal"
    length_is = "symbols to reverse"
    ranked = False

    def draw(self, lengths: Int[np.ndarray, " N"], rng: np.random.Generator) -> tuple[Ragged, Ragged]:
        prompt, _ = super().draw(lengths, rng)
        last = np.maximum(lengths[:, None] - 1 - np.arange(prompt.values.shape[1]), 0)
        return prompt, Ragged.of(np.take_along_axis(prompt.values, last, axis=1), lengths)
