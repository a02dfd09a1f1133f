"""RoPE whose base depends on each token and head."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import at_least_float32
from .base import At, Encoding
from .bibliography import published
from .rope import rotate_pairs


class CARoPE(Encoding):
    """RoPE with the angle i·θ_1^t of pair t replaced by Σ_{l≤i} f_l^t, f_l in (0, 1) from token l, per head.

    f = 1/(softplus(Wh + b) + 1), with W initialised to zero and the constant b such that f = θ_1 = base^(−2/d): training starts
    at RoPE. Position ids are not used.
    """

    info = published(
        "carope",
        family="rotary",
        formula="`rope` with angles Σ_{l≤i} f_l^t, f = 1/(softplus(Wh + b) + 1) per head, initialised to 10000^(−2/d)",
        past="phases grow with the content of all tokens, at most as fast as in the fastest pair of `rope`",
        lengths="base 10000 at the start, as published",
        shift_invariant=True,
    )

    def __init__(self, setup, *, base: float = 10000.0):
        super().__init__(setup)
        self.weight = nn.Parameter(torch.zeros(setup.layers, setup.heads, setup.width))
        target = base ** (2 / setup.head_width) - 1  # softplus(b) = 1/θ_1 − 1
        self.b = target + math.log(-math.expm1(-target))

    def log_f(self, at: At) -> Float[Tensor, "B H T"]:
        """ln f of every token, for every head."""
        x = at_least_float32(F.linear(at.h, self.weight[at.layer])) + self.b
        return -torch.log1p(F.softplus(x)).mT

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        log_f = self.log_f(at)
        powers = torch.arange(self.setup.head_width // 2, device=log_f.device)
        angles = (log_f[..., None] * powers).exp().cumsum(-2)
        cos, sin = angles.cos(), angles.sin()
        return rotate_pairs(q, cos, sin), rotate_pairs(k, cos, sin)
