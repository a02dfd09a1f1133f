"""RoPE whose angles are learned: frequencies that training chooses, positions that depend on content or change by layers."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import at_least_float32
from .base import At, Encoding
from .bibliography import published
from .rope import RoPE, frequencies, rotate_pairs

SCALE = 16.0
"""The parameter of ``grape_m`` is SCALE·ln θ_t, so that Adam, whose steps have a fixed size, changes ln θ_t more slowly."""


def turned(q: Tensor, k: Tensor, angles: Float[Tensor, "*B H T d/2"]) -> tuple[Tensor, Tensor]:
    """Queries and keys rotated by angles."""
    cos, sin = angles.cos(), angles.sin()
    return rotate_pairs(q, cos, sin), rotate_pairs(k, cos, sin)


class GrapeM(Encoding):
    """RoPE with learned θ_t, one set per layer for all heads, initialised to the angles of RoPE.

    The multiplicative form whose planes are fixed channel pairs and whose frequencies do not depend on content.
    """

    info = published("grape_m", like=RoPE.info)

    def __init__(self, setup, *, base: float = 10000.0):
        super().__init__(setup)
        start = SCALE * frequencies(setup.head_width, base).log()
        self.log_frequencies = nn.Parameter(start.float().repeat(setup.layers, 1))

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        thetas = (self.log_frequencies[at.layer] / SCALE).double().exp()
        return turned(q, k, (at.positions[..., None] * thetas).unsqueeze(-3))  # axis for the heads


class RePo(RoPE):
    """RoPE with a position z_i per head and token, predicted from the attention's input, in place of i.

    The first 5/16 of the layers keep RoPE at the position ids.
    """

    info = published("repo", like=RoPE.info)

    def __init__(self, setup, *, base: float = 500000.0, init_std: float = 0.02):
        super().__init__(setup, base=base)
        self.first = round(5 / 16 * setup.layers)
        """The first layer with predicted positions."""
        layers, width, inner = setup.layers - self.first, setup.width, max(1, setup.width // 8)
        self.gate = nn.Parameter(torch.randn(layers, inner, width) * init_std)
        self.content = nn.Parameter(torch.randn(layers, inner, width) * init_std)
        self.final = nn.Parameter(torch.randn(layers, setup.heads, inner) * init_std)

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        return frequencies(self.setup.head_width, self.base, at.positions.device)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        if at.layer < self.first:
            return super().rotate(q, k, at)
        layer = at.layer - self.first
        x = F.silu(F.linear(at.h, self.gate[layer])) * F.linear(at.h, self.content[layer])
        z = at_least_float32(F.linear(x, self.final[layer])).mT  # [B, H, T]
        return turned(q, k, z[..., None] * self.thetas(at).to(z.dtype))


class TAPE(RoPE):
    """RoPE at positions that every layer changes: e, the cosines and sines of a token in all heads, starts as in RoPE.

    After the attention, e_i gets c_h times the mean of e_j under the weights of the head; after the MLP, whose output is m,
    e gets a product over heads. In the authors' code c is the sum of a row of a matrix. Both start at zero, so at RoPE.
    """

    info = published("tape", like=RoPE.info)

    def __init__(self, setup, *, base: float = 10000.0, init_std: float = 0.02):
        super().__init__(setup, base=base)
        layers, heads, size = setup.layers - 1, setup.heads, 4 * setup.heads  # the last layer changes nothing
        self.mix = nn.Parameter(torch.zeros(layers, heads, heads))
        self.up = nn.Parameter(torch.zeros(layers, size, heads))
        self.gate = nn.Parameter(torch.randn(layers, size, setup.width) * init_std)
        self.down = nn.Parameter(torch.randn(layers, heads, size) * init_std)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return super().rotate(q, k, at if at.state is None else replace(at, shared=at.state.chunk(2, -1)))

    def advance(self, q: Tensor, k: Tensor, bias: Tensor | None, mlp: Tensor, at: At) -> Float[Tensor, "B H T d"]:
        e = torch.cat(at.shared, -1).expand(*q.shape[:-1], -1) if at.state is None else at.state
        layer = at.layer
        e = e + self.mix[layer].sum(-1)[:, None, None] * super().attend(q, k, e.to(q.dtype), bias, at)
        gate = F.silu(F.linear(mlp, self.gate[layer]))
        product = torch.einsum("hp,btp,pg->bthg", self.down[layer], gate, self.up[layer])
        return e + (product @ e.transpose(1, 2)).transpose(1, 2)
