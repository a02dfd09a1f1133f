"""RoPE whose pairs turn by a sum of frequencies in place of one."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from .base import At
from .bibliography import published
from .rope import RoPE, rotate_pairs

DEVIATION = 0.3
"""Standard deviation of the coefficients of other frequencies."""


class FoPE(RoPE):
    """At most half of the pairs are rotated, each by a fixed random mixture of all frequencies with a full turn within L.

    The other pairs are mapped in the same way at every position.
    """

    info = published(
        "fope",
        like=RoPE.info,
        formula="pair t: x·C_t(i) + rotated(x)·S_t(i), C_t(i) = Σ_u c_tu·cos(i·θ_u) over θ_u ≥ 2π/L, c = 1 + noise at u = t",
        past="no frequency has an untrained phase",
        lengths="θ ≥ 2π/L, from L; base 10000, as published",
        shift_invariant=False,
    )

    def __init__(self, setup, *, base: float = 10000.0):
        super().__init__(setup, base=base)
        theta = super().thetas(At(setup.train_tokens))
        self.kept = theta[theta >= 2 * math.pi / setup.train_tokens]
        pairs, outputs = len(self.kept), min(len(self.kept), setup.head_width // 4)
        noise = torch.randn((2, setup.heads, pairs, outputs), generator=torch.Generator().manual_seed(0))
        self.coefficients = DEVIATION * noise + step_identity(pairs, outputs)

    def prepare(self, at: At) -> tuple[Tensor, Tensor]:
        angles = at.positions[..., None].double() * self.kept.to(at.positions.device)
        waves = torch.stack([angles.cos(), angles.sin()])  # in float64, which autocast does not touch
        mixed = torch.einsum("c...tu,chuo->c...hto", waves, self.coefficients.to(waves)).float()
        rest = mixed.new_ones(*mixed.shape[:-1], self.setup.head_width // 2 - mixed.shape[-1])
        cos, sin = torch.cat([mixed, rest], -1)
        return cos, sin

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return rotate_pairs(q, *at.shared), rotate_pairs(k, *at.shared)


def step_identity(rows: int, columns: int) -> Float[Tensor, "{rows} {columns}"]:
    """Ones at (⌈rows/columns⌉·i, i)."""
    out, step = torch.zeros(rows, columns), math.ceil(rows / max(1, columns))
    for i in range(columns):
        if i * step < rows:
            out[i * step, i] = 1.0
    return out
