"""The inner product of two sinusoidal position embeddings, as a bias."""

import torch
from jaxtyping import Float
from torch import Tensor

from .base import At, Encoding
from .bibliography import published
from .rope import frequencies


class Sandwich(Encoding):
    """s_ij + (PE(i)·PE(j) − d̄/2)/(8h/H), with PE of width d̄: a bias that falls like the logarithm of the distance.

    −d̄/2 makes it 0 at r = 0; the softmax ignores it.
    """

    info = published(
        "sandwich",
        family="bias",
        formula="s_ij = q_i·k_j/√d + (Σ_t cos(r·10000^(−2t/d̄)) − d̄/2)·H/(8h), r = i − j, t = 0 … d̄/2 − 1, d̄ = 128, h = 1 … H",
        past="the same curve continues",
        lengths="base 10000, as published",
        shift_invariant=True,
    )

    def __init__(self, setup, *, width: int = 128):
        super().__init__(setup)
        self.width = width

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        angles = at.positions[..., None].double() * frequencies(self.width, 10000.0).to(at.positions.device)
        pe = torch.cat([angles.cos(), angles.sin()], -1)  # in float64, which autocast does not touch
        total = pe @ pe.mT - self.width / 2  # Σ_t cos(iθ_t)cos(jθ_t) + sin(iθ_t)sin(jθ_t) = Σ_t cos((i − j)θ_t)
        ratio = 8 * torch.arange(1, self.setup.heads + 1, device=total.device) / self.setup.heads
        return (total.unsqueeze(-3) / ratio[:, None, None]).float()

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        return at.shared
