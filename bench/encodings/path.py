"""Each token applies a Householder reflection to all earlier keys."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import at_least_float32
from .base import At, Encoding, Info

RANK, TAPS = 32, 3


class PaTH(Encoding):
    """s_ij = q_iᵀ H_i … H_{j+1} k_j/√d, H_t = I − β_t w_t w_tᵀ, β and w from token t; without the forget gate.

    Let u_tj = w_tᵀ H_{t−1} … H_{j+1} k_j. Then q_iᵀ H_i … H_{j+1} k_j = q_i·k_j − Σ_{j<t≤i} (q_i·w_t) β_t u_tj, and the u of
    all t > j solve the triangular system u_tj + Σ_{j<m<t} (w_t·w_m) β_m u_mj = w_t·k_j: no loop over T and no
    tensor larger than T × T.
    """

    info = Info(
        name="path",
        family="contextual",
        title="PaTH Attention: Position Encoding via Accumulating Householder Transformations",
        authors="Yang, Shen, Wen, Tan, Mishra, Ren, Panda, Kim",
        year=2025,
        link="https://arxiv.org/abs/2505.16381",
        formula="s_ij = q_iᵀ H_i … H_{j+1} k_j/√d, H_t = I − β_t w_t w_tᵀ, β = 2σ(W_β h), w = norm(silu(conv₃(W₂W₁h)))",
        past="reflections continue, token by token",
        provenance="the authors' code, fla-org/flash-linear-attention, layers/path_attn.py; start N(0, 1/inputs) is our choice",
        shift_invariant=True,
    )

    def __init__(self, setup):
        super().__init__(setup)
        layers, width, heads = setup.layers, setup.width, setup.heads
        channels = heads * setup.head_width
        self.down = nn.Parameter(torch.randn(layers, RANK, width) * width**-0.5)
        self.up = nn.Parameter(torch.randn(layers, channels, RANK) * RANK**-0.5)
        self.taps = nn.Parameter(torch.randn(layers, channels, 1, TAPS) * TAPS**-0.5)
        self.strength = nn.Parameter(torch.randn(layers, heads, width) * width**-0.5)
        self.offset = nn.Parameter(torch.zeros(layers, heads))

    def reflections(self, at: At) -> tuple[Float[Tensor, "B H T d"], Float[Tensor, "B H 1 T"]]:
        """w and β of each token."""
        low_rank = F.linear(F.linear(at.h, self.down[at.layer]), self.up[at.layer]).mT  # [B, H·d, T]
        w = F.conv1d(F.pad(low_rank, (TAPS - 1, 0)), self.taps[at.layer], groups=low_rank.shape[1])
        w = F.normalize(F.silu(at_least_float32(w)).unflatten(1, (self.setup.heads, -1)), dim=2).mT
        beta = 2 * at_least_float32(F.linear(at.h, self.strength[at.layer], self.offset[at.layer])).sigmoid()
        return w, beta.mT.unsqueeze(-2)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        w, beta = self.reflections(at)
        with torch.autocast(q.device.type, enabled=False):  # products of many reflections lose their norm in bf16
            q, k = at_least_float32(q), at_least_float32(k)
            system = (w @ w.mT) * beta  # the solver reads only the part below the diagonal
            u = torch.linalg.solve_triangular(system, (w @ k.mT).tril(-1), upper=False, unitriangular=True)
            return -((q @ w.mT).tril() * beta) @ u / math.sqrt(self.setup.head_width)
