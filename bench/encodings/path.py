"""Each token applies a Householder reflection to all earlier keys."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import at_least_float32, without_autocast
from .base import At, Encoding
from .bibliography import published
from .fox import forget_bias
from .selective_rope import low_rank_convolution

RANK, TAPS = 32, 3
INIT_STD = 0.02
NORM_EPS = 1e-6


class PaTH(Encoding):
    """s_ij = q_iᵀ H_i … H_{j+1} k_j/√d, H_t = I − β_t w_t w_tᵀ, β and w from token t; without the forget gate.

    Let u_tj = w_tᵀ H_{t−1} … H_{j+1} k_j. Then q_iᵀ H_i … H_{j+1} k_j = q_i·k_j − Σ_{j<t≤i} (q_i·w_t) β_t u_tj, and the u of
    all t > j solve the triangular system u_tj + Σ_{j<m<t} (w_t·w_m) β_m u_mj = w_t·k_j: no loop over T and no
    tensor larger than T × T.
    """

    info = published("path")

    def __init__(self, setup):
        super().__init__(setup)
        layers, width, heads = setup.layers, setup.width, setup.heads
        channels = heads * setup.head_width
        self.down = nn.Parameter(torch.randn(layers, RANK, width) * INIT_STD)
        self.up = nn.Parameter(torch.randn(layers, channels, RANK) * INIT_STD)
        self.taps = nn.Parameter(torch.randn(layers, channels, 1, TAPS) * INIT_STD)
        self.strength = nn.Parameter(torch.randn(layers, heads, width) * INIT_STD)
        self.offset = nn.Parameter(torch.zeros(layers, heads))

    def reflections(self, at: At) -> tuple[Float[Tensor, "B H T d"], Float[Tensor, "B H T 1"]]:
        """w and β of each token."""
        layer, heads = at.layer, self.setup.heads
        x = at_least_float32(low_rank_convolution(at.h, self.down[layer], self.up[layer], self.taps[layer, :, 0]))
        x = F.silu(x).unflatten(-1, (heads, -1)).transpose(1, 2)
        z = at_least_float32(F.linear(at.h, self.strength[layer], self.offset[layer]))
        return x * (x.square().sum(-1, keepdim=True) + NORM_EPS).rsqrt(), 2 * z.mT.unsqueeze(-1).sigmoid()

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        w, beta = self.reflections(at)
        with without_autocast(q):  # products of many reflections lose their norm in bf16
            q, k, v = at_least_float32(q), at_least_float32(k), beta * w
            u = torch.linalg.solve_triangular((w @ v.mT).tril(-1), (w @ k.mT).tril(-1), upper=False, unitriangular=True)
            return -((q @ v.mT).tril() @ u) / math.sqrt(self.setup.head_width)


class PaTHFoX(PaTH):
    """PaTH plus FoX's forget gate: s_ij = (q_iᵀ H_i … H_{j+1} k_j + Σ_{l=j+1..i} log f_l)/√d.

    Unlike FoX, the sum of the gates is divided by √d as well, in the authors' reference code and in their kernels.
    """

    info = published("path_fox", like=PaTH.info)

    def __init__(self, setup):
        super().__init__(setup)
        self.gate = nn.Parameter(torch.randn(setup.layers, setup.heads, setup.width) * INIT_STD)
        self.gate_offset = nn.Parameter(torch.zeros(setup.layers, setup.heads))

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        forgotten = forget_bias(at.h, self.gate[at.layer], self.gate_offset[at.layer])
        return super().bias(q, k, at) + forgotten / math.sqrt(self.setup.head_width)
