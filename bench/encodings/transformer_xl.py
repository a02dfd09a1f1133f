"""Scores with four terms: content–content, content–distance, and two global biases, u and v."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .base import At, Encoding
from .bibliography import published
from .rope import frequencies, rotate_pairs


class TransformerXL(Encoding):
    """s_ij = ((q_i + u)·k_j + (q_i + v)·W R_{i−j})/√d, with W per layer and head, u and v per head.

    R_r = (sin rθ, cos rθ) is never computed per pair: by the addition theorems,
    (a, b)·R_{i−j} = rotate_i(a, b)·(−sin jθ, cos jθ). So ids can be arbitrary, and nothing is gathered.
    """

    info = published(
        "transformer_xl",
        family="relative",
        formula="s_ij = (q_i·k_j + q_i·W R_r + u·k_j + v·W R_r)/√d, r = i − j, R_r = (sin rθ_t, cos rθ_t), θ_t = 10000^(−2t/D)",
        past="defined, but with untrained combinations of phases",
        lengths="base 10000, as published",
        shift_invariant=True,
    )

    def __init__(self, setup, *, init_std: float = 0.02):
        super().__init__(setup)
        heads, d = setup.heads, setup.head_width
        self.u = nn.Parameter(torch.randn(heads, d) * init_std)
        self.v = nn.Parameter(torch.randn(heads, d) * init_std)
        self.w = nn.Parameter(torch.randn(setup.layers, heads, d, setup.width) * init_std)

    def prepare(self, at: At) -> tuple[Tensor, Tensor, Tensor]:
        """cos and sin of iθ, and (−sin jθ, cos jθ)/√d."""
        angles = at.positions[..., None].double() * frequencies(self.setup.width, 10000.0).to(at.positions.device)
        cos, sin = angles.cos().float(), angles.sin().float()
        return cos, sin, torch.cat([-sin, cos], -1) / math.sqrt(self.setup.head_width)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return q + self.u[:, None].to(q.dtype), k

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        cos, sin, keys = at.shared
        # All heads first, so that each product is one of few large matrices.
        x = (q + (self.v - self.u)[:, None].to(q.dtype)).transpose(0, 1)  # q_i + v
        queries = torch.bmm(x.flatten(1, 2), self.w[at.layer]).view(*x.shape[:-1], -1)
        return (rotate_pairs(queries, cos, sin) @ keys.to(q.dtype).mT).transpose(0, 1)  # rotate_i(Wᵀ(q_i + v))·…
