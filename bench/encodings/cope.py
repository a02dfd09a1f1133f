"""Contextual positions: each query counts the earlier tokens for which its gate opens."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .attention import at_least_float32, without_autocast
from .base import At, Encoding
from .bibliography import published
from .cope_kernel import CountedRows


class CoPE(Encoding):
    """Key j has position p_ij = Σ_{m=j..i} σ(s_im) relative to query i; E is interpolated between the two nearest rows.

    E has p_max = L + 1 rows, enough for L open gates. The heads of a layer share it; it is initialised to zero.
    """

    info = published(
        "cope",
        family="contextual",
        formula="s_ij = (q_i·k_j + q_i·E[p_ij])/√d, p_ij = min(Σ_{m=j..i} σ(q_i·k_m/√d), L), E interpolated",
        past="positions beyond L share the last row, which training rarely reaches: gates start near ½",
        lengths="p_max = L + 1, as published",
        shift_invariant=True,
    )

    def __init__(self, setup, *, p_max: int = 0):
        super().__init__(setup)
        self.p_max = p_max or setup.train_tokens + 1
        self.table = nn.Parameter(torch.zeros(setup.layers, self.p_max, setup.head_width))

    @property
    def row_scale(self) -> float:
        """Factor of q·E, 1/√d."""
        return 1 / math.sqrt(self.setup.head_width)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        with without_autocast(q):  # sums over many tokens
            q, k, table = map(at_least_float32, (q, k, self.table[at.layer]))
            return CountedRows.apply(q, k, table, self.setup.head_width**-0.5, self.row_scale, at.causal)


class CoPEHalf(CoPE):
    """CoPE without 1/√d at q·E, and with p_max = L/2: gates start near ½, so training reaches every row."""

    info = published(
        "cope_half",
        like=CoPE.info,
        formula="s_ij = q_i·k_j/√d + q_i·E[p_ij], p_ij = min(Σ_{m=j..i} σ(q_i·k_m/√d), L/2 − 1), E interpolated",
        past="positions beyond p_max − 1 share the last row",
        lengths="p_max = L/2, scaled",
    )

    def __init__(self, setup, *, p_max: int = 0):
        super().__init__(setup, p_max=p_max or (setup.train_tokens + 1) // 2)

    @property
    def row_scale(self) -> float:
        return 1.0
