"""Polar coordinates: content sets magnitudes, positions set phases."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .base import At
from .bibliography import published
from .rope import RoPE, frequencies


def polar(
    x: Float[Tensor, "B H T d"], cos: Float[Tensor, "*B H T d"], sin: Float[Tensor, "*B H T d"]
) -> Float[Tensor, "B H T 2d"]:
    """(softplus(x)·cos, softplus(x)·sin): each channel becomes a point in the plane."""
    x = F.softplus(x)
    return torch.cat([x * cos.to(x.dtype), x * sin.to(x.dtype)], -1)


class PoPE(RoPE):
    """Channel c has magnitude softplus(q_c) and phase i·θ_c; keys have an additional learned phase per head.

    Every channel is its own pair, so there are d frequencies (RoPE has d/2), and q and k double in width. The scale stays 1/√d.
    """

    info = published("pope")

    def __init__(self, setup, *, base: float = 10000.0):
        super().__init__(setup, base=base)
        self.delta = nn.Parameter(torch.zeros(setup.layers, setup.heads, setup.head_width))

    def thetas(self, at: At) -> Float[Tensor, " d"]:
        return frequencies(2 * self.setup.head_width, self.base, at.positions.device)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        cos, sin = at.shared
        delta = self.delta[at.layer].clamp(-2 * math.pi, 0)[:, None]
        # cos and sin of jθ + δ by the addition theorems, so that the large angle jθ stays in float64.
        a, b = delta.cos(), delta.sin()
        return polar(q, cos, sin), polar(k, cos * a - sin * b, sin * a + cos * b)
