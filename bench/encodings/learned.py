"""Learned absolute position embeddings, added to the token embeddings."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .base import At, Encoding
from .bibliography import published


class Learned(Encoding):
    """x_p = tok_p + W[p], with one row of W for every position up to L′.

    Rows past the longest training sequence are never trained and keep their random initialisation: that is the true result of
    the method. Positions are not clamped, wrapped around or interpolated.
    """

    info = published(
        "learned",
        family="absolute",
        formula="x_p = tok_p + W[p]",
        past="rows past L stay at their random initialisation",
        lengths="rows to L′, scaled",
    )
    float_ids = False

    def __init__(self, setup, *, init_std: float = 0.02):
        super().__init__(setup)
        self.table = nn.Parameter(torch.randn(setup.longest_tokens, setup.width) * init_std)

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        return x + self.table[at.positions] if at.layer == 0 else x


class LearnedPerLayer(Learned):
    """x_p += W_l[p] at the input of each layer l, with one table per layer; the sum stays in the residual stream."""

    info = published(
        "learned_per_layer",
        like=Learned.info,
        formula="x_p += W_l[p] before each layer l",
    )

    def __init__(self, setup, *, init_std: float = 0.02):
        super().__init__(setup, init_std=init_std)
        self.table = nn.Parameter(torch.randn(setup.layers, *self.table.shape) * init_std)

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        return x + self.table[at.layer, at.positions]


class LearnedOffset(Learned):
    """x_p = tok_p + W[p + o]; o is drawn for each sequence in training, and 0 in evaluation.

    W has L′ + L rows and o is in 0 … L′, so that rows from L to L′ are trained by every position of a sequence.
    """

    info = published(
        "learned_offset",
        like=Learned.info,
        formula="x_p = tok_p + W[p + o], o ~ U{0 … L′} per sequence in training, 0 in evaluation",
        past="rows past L are trained, but never in the same sequence as row 0",
        lengths="offsets 0 … L′, rows to L′ + L, scaled",
        random=True,
    )

    def __init__(self, setup, *, init_std: float = 0.02):
        super().__init__(replace(setup, longest_tokens=setup.longest_tokens + setup.train_tokens), init_std=init_std)

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Int[Tensor, "*B T"]:
        ids = super().positions(tokens, at)
        if not self.training:
            return ids
        # Bounded by the announced length, not by T: the draw must not depend on where the sequence is truncated.
        offsets = max(0, len(self.table) - at.announced_length) + 1
        return ids + torch.randint(offsets, (len(tokens), 1), device=tokens.device, generator=at.generator)
