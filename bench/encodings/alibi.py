"""A fixed penalty that grows with distance, at a different rate in each head."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from .base import At, Encoding, Info, distances


def slopes(heads: int) -> list[float]:
    """m_h = 2^(−8h/H), h = 1 … H; for H no power of two, those of the power below, then every other one of the power above."""
    power = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    return first if power == heads else first + slopes(2 * power)[::2][: heads - power]


class ALiBi(Encoding):
    """s_ij − m_h·(i − j), m_h a geometric sequence over heads."""

    info = Info(
        name="alibi",
        family="bias",
        title="Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
        authors="Press, Smith, Lewis",
        year=2022,
        link="https://arxiv.org/abs/2108.12409",
        formula="s_ij = q_i·k_j/√d − m_h·(i − j), m_h = 2^(−8h/H)",
        past="the same line goes on",
        provenance="the authors' code, ofirpress/attention_with_linear_biases, get_slopes",
        shift_invariant=True,
    )

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        m = torch.tensor(slopes(self.setup.heads), device=at.positions.device)
        # Distance first, in float32: m·j alone loses digits at large j. Zero past the diagonal, where the mask decides.
        return -m[:, None, None] * distances(at.positions).clamp(min=0).float().unsqueeze(-3)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        return at.shared
