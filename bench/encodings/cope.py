"""Contextual positions: each query counts the earlier tokens for which its gate opens."""

import torch
from torch import Tensor, nn

from .attention import at_least_float32, hidden_keys, masked_softmax, scores
from .base import At, Encoding, Info


class CoPE(Encoding):
    """Key j has position p_ij = Σ_{m=j..i} σ(s_im) relative to query i; E is interpolated between the two nearest rows.

    E has p_max rows, by default half the training length: gates start near ½, so training reaches about that far and leaves
    no row untrained. The heads of a layer share E, which is initialised to zero.
    """

    info = Info(
        name="cope",
        family="contextual",
        title="Contextual Position Encoding: Learning to Count What's Important",
        authors="Golovneva, Wang, Weston, Sukhbaatar",
        year=2024,
        link="https://arxiv.org/abs/2405.18719",
        formula="s_ij = q_i·k_j/√d + q_i·E[p_ij], p_ij = min(Σ_{m=j..i} σ(q_i·k_m/√d), p_max − 1), E interpolated",
        past="positions beyond p_max − 1 share the last row",
        provenance="second-hand: x-transformers' CoPE, after the paper's appendix B; p_max = L/2 is our choice for short L",
        shift_invariant=True,
    )

    def __init__(self, setup, *, p_max: int = 0):
        super().__init__(setup)
        self.p_max = p_max or (setup.train_tokens + 1) // 2
        self.table = nn.Parameter(torch.zeros(setup.layers, self.p_max, setup.head_width))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Tensor:
        s = scores(q, k, self.setup)
        gates = at_least_float32(s).sigmoid().masked_fill(hidden_keys(s, at), 0)
        p = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=self.p_max - 1)
        looked_up = q @ self.table[at.layer].mT  # q_i·E[n], [B, H, T, p_max]
        low, high = (looked_up.gather(-1, n.long()) for n in (p.floor(), p.ceil()))
        s = s + low + (p - p.floor()) * (high - low)
        return masked_softmax(s, bias, at) @ v
