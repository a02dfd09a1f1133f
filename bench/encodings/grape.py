"""A penalty linear in the distance, with a slope that depends on the key."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .alibi import slopes
from .attention import at_least_float32
from .base import At, Encoding, Info


class GrapeA(Encoding):
    """ALiBi whose slope in head h is multiplied by softplus(ω_h) and, for key j, by softplus(û_h·k_j/√d); û has length 1.

    The additive, key-gated form. softplus(ω) is initialised to 1.
    """

    info = Info(
        name="grape_a",
        family="contextual",
        title="Group Representational Position Encoding",
        authors="Zhang, Chen, Liu, Qin, Yuan, Xu, Yuan, Gu, Yao",
        year=2025,
        link="https://arxiv.org/abs/2512.07805",
        formula="s_ij = q_i·k_j/√d − (i − j)·m_h·softplus(ω_h)·softplus(û_h·k_j/√d), m_h = 2^(−8h/H)",
        past="the bias stays linear in the distance, with a slope per key",
        provenance="the authors' code, model-architectures/GRAPE, key-gated GRAPE-A, without its norm of q and k",
        shift_invariant=True,
    )

    def __init__(self, setup):
        super().__init__(setup)
        self.omega = nn.Parameter(torch.full((setup.layers, setup.heads), math.log(math.e - 1)))
        self.u = nn.Parameter(torch.randn(setup.layers, setup.heads, setup.head_width) * setup.head_width**-0.5)

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        m = torch.tensor(slopes(self.setup.heads), device=at.positions.device)
        return -m[:, None, None] * at.distances.clamp(min=0).float().unsqueeze(-3)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        u = F.normalize(self.u[at.layer], dim=-1)[:, None]
        gate = F.softplus((at_least_float32(k) * u).sum(-1) / math.sqrt(self.setup.head_width))  # [B, H, T], one per key
        rate = F.softplus(self.omega[at.layer])[:, None] * gate
        return at.shared * rate[:, :, None]
