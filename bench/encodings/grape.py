"""Penalties that grow with each token between key and query, at a rate that depends on content."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .alibi import ALiBi, slopes
from .attention import at_least_float32
from .base import At, Encoding
from .bibliography import published
from .rope import rotate_pairs

PATH_WIDTH = 8


class GrapeA(ALiBi):
    """ALiBi whose slope in head h is multiplied by softplus(ω_h) and, for key j, by softplus(û_h·k_j/√d); û has length 1.

    The additive, key-gated form. softplus(ω) is initialised to 1.
    """

    info = published("grape_a")

    def __init__(self, setup):
        super().__init__(setup)
        self.omega = nn.Parameter(torch.full((setup.layers, setup.heads), math.log(math.e - 1)))
        self.u = nn.Parameter(torch.randn(setup.layers, setup.heads, setup.head_width) * setup.head_width**-0.5)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        u = F.normalize(self.u[at.layer], dim=-1)[:, None]
        gate = F.softplus((at_least_float32(k) * u).sum(-1) / math.sqrt(self.setup.head_width))  # [B, H, T], one per key
        rate = F.softplus(self.omega[at.layer])[:, None] * gate
        return at.shared * rate[:, :, None]


class GrapeAP(Encoding):
    """Every token l on the path from key j to query i adds m_h·log σ(p_i·R_l p̂_l/8) ≤ 0; p is a projection of h to width 8.

    p̂ is p divided by its root mean square. R_l rotates every channel pair by l radians, on the key side alone, so that a token
    counts by its absolute position. In the paper the query side is normalised too; in the authors' code it is not.
    """

    info = published("grape_ap", like=GrapeA.info)
    slopes: Tensor

    def __init__(self, setup):
        super().__init__(setup)
        shape = setup.layers, setup.heads * PATH_WIDTH, setup.width
        self.weight = nn.Parameter(torch.randn(shape) * 0.5 * setup.width**-0.5)
        self.register_buffer("slopes", torch.tensor(slopes(setup.heads))[:, None, None], persistent=False)

    def prepare(self, at: At) -> tuple[Float[Tensor, "*B 1 T 1"], Float[Tensor, "*B 1 T 1"]]:
        angles = at.positions[..., None, :, None].double()  # the same for all heads and channel pairs
        return angles.cos().float(), angles.sin().float()

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        cos, sin = at.shared
        p = at_least_float32(F.linear(at.h, self.weight[at.layer])).unflatten(-1, (-1, PATH_WIDTH)).transpose(1, 2)
        turned = rotate_pairs(F.rms_norm(p, (PATH_WIDTH,)), cos, -sin)  # by −l, as in the authors' code
        steps = (self.slopes * F.logsigmoid(at_least_float32(p @ turned.mT) / PATH_WIDTH)).tril()
        return steps.sum(-1, keepdim=True) - steps.cumsum(-1)
