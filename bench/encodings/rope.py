"""Queries and keys rotated by their position."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .base import At, Encoding, Info


def frequencies(width: int, base: float) -> Float[Tensor, " width/2"]:
    """θ_t = base^(−2t/width), t = 0 … width/2 − 1, in float64."""
    return base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)


def turn(
    x: Float[Tensor, "B H T d"], cos: Float[Tensor, "*B T d/2"], sin: Float[Tensor, "*B T d/2"]
) -> Float[Tensor, "B H T d"]:
    """(a, b) → (a·cos − b·sin, a·sin + b·cos) on the pairs (t, t + d/2)."""
    a, b = x.chunk(2, -1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class RoPE(Encoding):
    """Channel pair t of q_i and k_j turned by i·θ_t and j·θ_t, so that their product knows only i − j. All channels turn."""

    info = Info(
        name="rope",
        family="rotary",
        title="RoFormer: Enhanced Transformer with Rotary Position Embedding",
        authors="Su, Lu, Pan, Murtadha, Wen, Liu",
        year=2021,
        link="https://arxiv.org/abs/2104.09864",
        formula="s_ij = R(i)q_i·R(j)k_j/√d, R(p) turns pair t by p·θ_t, θ_t = 10000^(−2t/d)",
        past="defined, but slow pairs reach phases never met in training",
        provenance="the paper; pairs (t, t + d/2) as in Llama, equal to the paper's up to a permutation of channels",
        shift_invariant=True,
    )

    def __init__(self, setup, *, base: float = 10000.0):
        super().__init__(setup)
        self.base = base

    def angles(self, ids: Int[Tensor, "*B T"]) -> Float[Tensor, "*B T d/2"]:
        return ids[..., None].double() * frequencies(self.setup.head_width, self.base).to(ids.device)

    def prepare(self, at: At) -> tuple[Tensor, Tensor]:
        angles = self.angles(at.positions)
        angles = angles.unsqueeze(-3)  # one axis for the heads
        return angles.cos().float(), angles.sin().float()

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return turn(q, *at.shared), turn(k, *at.shared)
