"""A bias adapted to the content by a small network that sees the scores of all heads."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import scores
from .base import At, Info, Wrapper

ENTRIES = ("dape(alibi)", "dape(kerple_log)")


def uniform(*shape: int, inputs: int) -> nn.Parameter:
    """A parameter drawn from U(−1/√inputs, 1/√inputs), as in ``nn.Linear``."""
    return nn.Parameter((2 * torch.rand(shape) - 1) * inputs**-0.5)


class DAPE(Wrapper):
    """s_ij + b_ij + F([s_ij; b_ij]): F maps the scores and biases of all heads at (i, j) to one more bias per head.

    F is Linear(2H, 32), LeakyReLU, Linear(32, H), one per layer. If the wrapped encoding has no bias, b is 0.
    """

    info = Info(
        name="dape",
        family="contextual",
        title="DAPE: Data-Adaptive Positional Encoding for Length Extrapolation",
        authors="Zheng, Gao, Shi, Huang, Li, Xiong, Ren, Ng, Jiang, Li, Li",
        year=2024,
        link="https://arxiv.org/abs/2405.14722",
        formula="s_ij = q_i·k_j/√d + b_ij + F([q_i·k_j/√d; b_ij]), F = Linear(32, H)∘LeakyReLU∘Linear(2H, 32) over heads",
        past="F sees biases outside its training range wherever b leaves it",
        provenance="the authors' code, chuanyang-Zheng/DAPE, DAPE.py, version 1",
        shift_invariant=True,
    )

    def __init__(self, setup, *, hidden: int = 32):
        super().__init__(setup)
        layers, heads = setup.layers, setup.heads
        self.w1, self.b1 = uniform(layers, hidden, 2 * heads, inputs=2 * heads), uniform(layers, hidden, inputs=2 * heads)
        self.w2, self.b2 = uniform(layers, heads, hidden, inputs=hidden), uniform(layers, heads, inputs=hidden)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        s, b = scores(q, k, self.setup), self.base.bias(q, k, at)
        b = torch.zeros_like(s) if b is None else b.expand_as(s)
        x = torch.cat([s, b.to(s.dtype)], 1)  # [B, 2H, T, T]: a linear map over heads is a 1 × 1 convolution
        x = F.leaky_relu(F.conv2d(x, self.w1[at.layer, :, :, None, None], self.b1[at.layer]))
        return b + F.conv2d(x, self.w2[at.layer, :, :, None, None], self.b2[at.layer])
