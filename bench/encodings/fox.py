"""Attention with a forget gate: each token decides how much weight earlier tokens keep."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import at_least_float32
from .base import At, Encoding
from .bibliography import published


def forget_bias(
    h: Float[Tensor, "B T D"], weight: Float[Tensor, "H D"], offset: Float[Tensor, " H"]
) -> Float[Tensor, "B H T T"]:
    """Σ_{l=j+1..i} log σ(w_h·h_l + b_h): the logarithm of what the gates between key j and query i leave."""
    gates = F.linear(h, weight, offset).mT  # [B, H, T]
    kept = F.logsigmoid(at_least_float32(gates)).cumsum(-1)
    return kept[..., :, None] - kept[..., None, :]


class FoX(Encoding):
    """s_ij + Σ_{l=j+1..i} log f_l with forget gates f_l = σ(w_h·h_l + b_h) per head; the bias of i itself is 0.

    Only the forget gate of the paper, without the other parts of its "Pro" block.
    """

    info = published(
        "fox",
        family="contextual",
        formula="s_ij = q_i·k_j/√d + Σ_{l=j+1..i} log σ(w_h·h_l + b_h)",
        past="gates keep accumulating, token by token",
        shift_invariant=True,
    )

    def __init__(self, setup, *, gate_bias: float = 0.0):
        super().__init__(setup)
        self.weight = nn.Parameter(torch.randn(setup.layers, setup.heads, setup.width) * 0.02)
        self.offset = nn.Parameter(torch.full((setup.layers, setup.heads), gate_bias))

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        return forget_bias(at.h, self.weight[at.layer], self.offset[at.layer])
