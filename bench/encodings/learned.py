"""A trained table of positions added to the embedding."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
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
    float_ids = False

    def __init__(self, setup, *, init_std: float = 0.02):
        super().__init__(setup)
        self.table = nn.Parameter(torch.randn(setup.longest_tokens, setup.width) * init_std)

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        return x + self.table[at.positions] if at.layer == 0 else x


class LearnedPerLayer(Learned):
    """x_p += W_l[p] at the entry of layer l, a table for each; like x itself, what is added stays in the residual stream."""

    info = replace(
        Learned.info,
        name="learned_per_layer",
        formula="x_p += W_l[p] before each layer l",
        provenance="`learned` with a table for every layer, as this project's reference says; no paper was read for it",
    )

    def __init__(self, setup, *, init_std: float = 0.02):
        super().__init__(setup, init_std=init_std)
        self.table = nn.Parameter(torch.randn(setup.layers, *self.table.shape) * init_std)

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        return x + self.table[at.layer, at.positions]


class LearnedOffset(Learned):
    """x_p = tok_p + W[p + o]; training draws o anew for each sequence, so that every row is trained. No offset in a test."""

    info = replace(
        Learned.info,
        name="learned_offset",
        title="SHAPE: Shifted Absolute Position Embedding for Transformers",
        authors="Kiyono, Kobayashi, Suzuki, Inui",
        year=2021,
        link="https://arxiv.org/abs/2109.05644",
        formula="x_p = tok_p + W[p + o], o ~ U{0 … L′ − L} for each sequence in training, 0 in tests",
        past="rows past L are trained, but never in one sequence with row 0",
        provenance="the paper's abstract, where sinusoids are shifted; the learned table and the law of o are our choice",
        random=True,
    )

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Int[Tensor, "*B T"]:
        ids = super().positions(tokens, at)
        if not self.training:
            return ids
        # Bounded by the announced length, not by T: the draw may not hang on where the sequence is cut.
        offsets = max(0, self.setup.longest_tokens - at.nominal) + 1
        return ids + torch.randint(offsets, (len(tokens), 1), device=tokens.device, generator=at.generator)
