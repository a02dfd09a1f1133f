"""Scores with four terms: content–content, content–distance, and two global biases, u and v."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .base import At, Encoding, Info
from .rope import frequencies, rotate_pairs


class TransformerXL(Encoding):
    """s_ij = ((q_i + u)·k_j + (q_i + v)·W R_{i−j})/√d, with W per layer and head, u and v per head.

    R_r = (sin rθ, cos rθ) is never computed per pair: by the addition theorems,
    (a, b)·R_{i−j} = rotate_i(a, b)·(−sin jθ, cos jθ). So ids can be arbitrary, and nothing is gathered.
    """

    info = Info(
        name="transformer_xl",
        family="relative",
        title="Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context",
        authors="Dai, Yang, Yang, Carbonell, Le, Salakhutdinov",
        year=2019,
        link="https://arxiv.org/abs/1901.02860",
        formula="s_ij = (q_i·k_j + q_i·W R_r + u·k_j + v·W R_r)/√d, r = i − j, R_r = (sin rθ_t, cos rθ_t), θ_t = 10000^(−2t/D)",
        past="defined, but with untrained combinations of phases",
        provenance="the authors' code, kimiyoung/transformer-xl, without memory and clamp_len; its initialisation N(0, 0.02²)",
        source="official code",
        lengths="base 10000, as published",
        shift_invariant=True,
    )

    def __init__(self, setup, *, init_std: float = 0.02):
        super().__init__(setup)
        heads, d = setup.heads, setup.head_width
        self.u = nn.Parameter(torch.randn(heads, d) * init_std)
        self.v = nn.Parameter(torch.randn(heads, d) * init_std)
        self.w = nn.Parameter(torch.randn(setup.layers, heads, d, setup.width) * init_std)

    def prepare(self, at: At) -> tuple[Tensor, Tensor]:
        angles = at.positions[..., None].double() * frequencies(self.setup.width, 10000.0).to(at.positions.device)
        angles = angles.unsqueeze(-3)  # axis for the heads
        return angles.cos().float(), angles.sin().float()

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        cos, sin = at.shared
        content = (k * self.u[:, None]).sum(-1)[..., None, :]  # u·k_j
        queries = rotate_pairs((q + self.v[:, None]) @ self.w[at.layer], cos, sin)  # rotate_i(Wᵀ(q_i + v))
        distance = queries @ torch.cat([-sin, cos], -1).to(q.dtype).mT
        return (content + distance) / math.sqrt(self.setup.head_width)
