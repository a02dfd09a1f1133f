"""A trained table of positions added to the embedding."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .base import At, Encoding, Info


class Learned(Encoding):
    """x_p = tok_p + W[p], W one row for every place up to L′.

    Rows past the longest training sequence are never trained: they keep their random start, and that is the honest result of
    the method. No row is clamped, wrapped or interpolated.
    """

    info = Info(
        name="learned",
        family="absolute",
        title="Convolutional Sequence to Sequence Learning",
        authors="Gehring, Auli, Grangier, Yarats, Dauphin",
        year=2017,
        link="https://arxiv.org/abs/1705.03122",
        formula="x_p = tok_p + W[p]",
        past="rows past L stay untrained, at their random start",
        provenance="the formula is GPT-2's; start N(0, 0.02²) from memory of GPT-2",
    )

    def __init__(self, setup, *, init_std: float = 0.02):
        super().__init__(setup)
        self.table = nn.Parameter(torch.randn(setup.longest_tokens, setup.width) * init_std)

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        return x + self.table[at.positions] if at.layer == 0 else x
