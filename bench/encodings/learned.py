"""Learned absolute position embeddings, added to the token embeddings."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .base import At, Encoding, Info


class Learned(Encoding):
    """x_p = tok_p + W[p], with one row of W for every position up to L′.

    Rows past the longest training sequence are never trained and keep their random initialisation: that is the true result of
    the method. Positions are not clamped, wrapped around or interpolated.
    """

    info = Info(
        name="learned",
        family="absolute",
        title="Convolutional Sequence to Sequence Learning",
        authors="Gehring, Auli, Grangier, Yarats, Dauphin",
        year=2017,
        link="https://arxiv.org/abs/1705.03122",
        formula="x_p = tok_p + W[p]",
        past="rows past L stay at their random initialisation",
        provenance="GPT-2; initialisation N(0, 0.02²) as in transformers' port, where openai/gpt-2, src/model.py, has 0.01",
        source="port",
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

    info = replace(
        Learned.info,
        name="learned_per_layer",
        formula="x_p += W_l[p] before each layer l",
        provenance="`learned` with one table per layer, our own variant; not taken from a paper",
        source="own variant",
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

    info = replace(
        Learned.info,
        name="learned_offset",
        title="SHAPE: Shifted Absolute Position Embedding for Transformers",
        authors="Kiyono, Kobayashi, Suzuki, Inui",
        year=2021,
        link="https://arxiv.org/abs/2109.05644",
        formula="x_p = tok_p + W[p + o], o ~ U{0 … L′} per sequence in training, 0 in evaluation",
        past="rows past L are trained, but never in the same sequence as row 0",
        provenance="the authors' code, butsugiri/shape, shifts sinusoids, o < 500; a learned table as in "
        "lacoco-lab/length_generalization, where o is at most L′ less the sequence's own length; the range of o is our choice",
        source="own variant",
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
