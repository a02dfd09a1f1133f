"""Biases that are learned kernels of the distance: logarithmic and power."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .base import At, Encoding
from .bibliography import published


def straight_through_clamp(x: Tensor, least: float, most: float | None = None) -> Tensor:
    """Clamp x but pass its gradient through, so that a parameter at the bound can move back."""
    return x + (x.clamp(least, most) - x).detach()


class KerpleLog(Encoding):
    """s_ij − p_h·ln(1 + a_h·(i − j)), with a and p learned per head, shared by all layers; in `dape`, each has its own.

    The authors clamp the parameters in place before each use; here the clamp is part of the graph.
    """

    info = published(
        "kerple_log",
        family="bias",
        formula="s_ij = q_i·k_j/√d − p_h·ln(1 + a_h·(i − j)), a_h, p_h ≥ 0.01",
        past="the same curve continues",
        shift_invariant=True,
    )

    def __init__(self, setup):
        super().__init__(setup)
        self.draw(setup.heads, 1, 1)

    def draw(self, *shape: int) -> None:
        """Draw initial a and p: [H, 1, 1], or [layers, H, 1, 1] for `dape`."""
        self.per_layer = len(shape) == 4
        self.a = nn.Parameter(torch.rand(shape))
        self.p = nn.Parameter(2 * torch.rand(shape))

    def prepare(self, at: At) -> Float[Tensor, "*B h T T"]:
        r = at.distances.clamp(min=0).float().unsqueeze(-3)
        return r if self.per_layer else self.kernel(r, self.a, self.p)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        return self.kernel(at.shared, self.a[at.layer], self.p[at.layer]) if self.per_layer else at.shared

    def kernel(self, r: Float[Tensor, "*B 1 T T"], a: Tensor, p: Tensor) -> Float[Tensor, "*B H T T"]:
        return -straight_through_clamp(p, 0.01) * torch.log1p(straight_through_clamp(a, 0.01) * r)


class KerplePower(KerpleLog):
    """s_ij − a_h·(i − j)^p_h; p = 1 is ALiBi with learned slopes."""

    info = published(
        "kerple_power",
        like=KerpleLog.info,
        formula="s_ij = q_i·k_j/√d − a_h·(i − j)^p_h, a_h ≥ 0.01, 0.01 ≤ p_h ≤ 2",
    )

    def kernel(self, r: Float[Tensor, "*B 1 T T"], a: Tensor, p: Tensor) -> Float[Tensor, "*B H T T"]:
        # Handle 0^p separately: its gradient in p would be 0·ln 0.
        power = r.masked_fill(r == 0, 1) ** straight_through_clamp(p, 0.01, 2)
        return -straight_through_clamp(a, 0.01) * power.masked_fill(r == 0, 0)
