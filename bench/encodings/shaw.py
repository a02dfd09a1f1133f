"""Learned vectors per distance, added to keys and values."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .attention import masked_softmax, scores
from .base import At, Encoding
from .bibliography import published


class Shaw(Encoding):
    """Adds a vector for min(i − j, k) to key and value of j, shared by a layer's heads; needs no T × T × d tensor.

    A causal model uses k + 1 of the paper's 2k + 1 clipped distances; only those have rows.
    """

    info = published(
        "shaw",
        family="relative",
        formula="s_ij = q_i·(k_j + aK[c])/√d, o_i = Σ_j A_ij (v_j + aV[c]), c = min(i − j, k), k = 16",
        past="all distances from 16 on share one vector, which is untrained if L < 18 tokens",
        lengths="k = 16, as published",
        shift_invariant=True,
    )
    float_ids = False

    def __init__(self, setup, *, clip: int = 16, init_std: float = 0.02):
        super().__init__(setup)
        self.clip = clip
        self.keys = nn.Parameter(torch.randn(setup.layers, clip + 1, setup.head_width) * init_std)
        self.values = nn.Parameter(torch.randn(setup.layers, clip + 1, setup.head_width) * init_std)

    def prepare(self, at: At) -> Int[Tensor, "*B 1 T T"]:
        return at.distances.clamp(0, self.clip).unsqueeze(-3)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        """q_i·aK[c]/√d: the product of every query with every row, gathered for each key."""
        by_row = q @ self.keys[at.layer].T / math.sqrt(self.setup.head_width)
        return by_row.gather(-1, at.shared.expand(*q.shape[:3], -1))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Float[Tensor, "B H T d"]:
        weights = masked_softmax(scores(q, k, self.setup), bias, at)
        # Σ_j A_ij aV[c]: sum the weights per row, then multiply with the rows.
        by_row = weights.new_zeros(*q.shape[:3], self.clip + 1).scatter_add(-1, at.shared.expand_as(weights), weights)
        return weights.to(v.dtype) @ v + by_row.to(v.dtype) @ self.values[at.layer].to(v.dtype)


class ShawScaled(Shaw):
    """Shaw's vectors with k = L/2 tokens, so that training reaches every row, and reaches the last one often."""

    info = published(
        "shaw_scaled",
        like=Shaw.info,
        formula="s_ij = q_i·(k_j + aK[c])/√d, o_i = Σ_j A_ij (v_j + aV[c]), c = min(i − j, k), k = L/2",
        past="all distances from L/2 on share one vector, which is trained",
        lengths="k = L/2, scaled",
    )

    def __init__(self, setup, *, init_std: float = 0.02):
        super().__init__(setup, clip=setup.train_tokens // 2, init_std=init_std)
