"""Learned kernels of the distance: logarithmic and power."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .base import At, Encoding, Info, distances


def held(x: Tensor, least: float, most: float | None = None) -> Tensor:
    """x clamped; its gradient passes as if it were not, so that a parameter at the wall can come back."""
    return x + (x.clamp(least, most) - x).detach()


class KerpleLog(Encoding):
    """s_ij − p_h·ln(1 + a_h·(i − j)), a and p learned for each head, the same in all layers.

    The authors clamp the parameters in place before each use; here the clamp is part of the graph (``held``).
    """

    info = Info(
        name="kerple_log",
        family="bias",
        title="KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation",
        authors="Chi, Fan, Ramadge, Rudnicky",
        year=2022,
        link="https://arxiv.org/abs/2205.09921",
        formula="s_ij = q_i·k_j/√d − p_h·ln(1 + a_h·(i − j)), a_h, p_h ≥ 0.01",
        past="the same curve goes on",
        provenance="chijames/KERPLE, ParallelKerpleLog and ParallelKerplePower; start a ~ U(0, 1), p ~ U(0, 2) as there",
        shift_invariant=True,
    )

    def __init__(self, setup):
        super().__init__(setup)
        self.a = nn.Parameter(torch.rand(setup.heads, 1, 1))
        self.p = nn.Parameter(2 * torch.rand(setup.heads, 1, 1))

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        return self.kernel(distances(at.positions).clamp(min=0).float().unsqueeze(-3))

    def kernel(self, r: Float[Tensor, "*B 1 T T"]) -> Float[Tensor, "*B H T T"]:
        return -held(self.p, 0.01) * torch.log1p(held(self.a, 0.01) * r)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        return at.shared


class KerplePower(KerpleLog):
    """s_ij − a_h·(i − j)^p_h; p = 1 is ALiBi with learned slopes."""

    info = replace(
        KerpleLog.info,
        name="kerple_power",
        formula="s_ij = q_i·k_j/√d − a_h·(i − j)^p_h, a_h ≥ 0.01, 0.01 ≤ p_h ≤ 2",
    )

    def kernel(self, r: Float[Tensor, "*B 1 T T"]) -> Float[Tensor, "*B H T T"]:
        # 0^p apart: its gradient in p would be 0·ln 0.
        power = r.masked_fill(r == 0, 1) ** held(self.p, 0.01, 2)
        return -held(self.a, 0.01) * power.masked_fill(r == 0, 0)
