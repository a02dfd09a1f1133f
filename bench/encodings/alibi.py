"""A fixed penalty that grows with distance, at a different rate in each head."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .base import At, Encoding, Info


def slopes(heads: int) -> list[float]:
    """m_h = 2^(−8h/H), h = 1 … H. If H is not a power of two: the slopes of the next lower power, then every other slope of the
    next higher one."""
    power = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    return first if power == heads else first + slopes(2 * power)[::2][: heads - power]


class ALiBi(Encoding):
    """s_ij − m_h·(i − j), with m_h a geometric sequence over heads."""

    info = Info(
        name="alibi",
        family="bias",
        title="Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation",
        authors="Press, Smith, Lewis",
        year=2022,
        link="https://arxiv.org/abs/2108.12409",
        formula="s_ij = q_i·k_j/√d − m_h·(i − j), m_h = 2^(−8h/H)",
        past="the bias stays linear in the distance",
        provenance="ofirpress/attention_with_linear_biases, fairseq/models/transformer.py, get_slopes",
        source="official code",
        shift_invariant=True,
    )

    def slopes(self) -> Float[Tensor, " H"]:
        return torch.tensor(slopes(self.setup.heads))

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        m = self.slopes().to(at.positions.device)
        # Subtract ids before multiplying: m·j − m·i loses digits in float32 at large j. Later keys get 0; the mask hides them.
        return -m[:, None, None] * at.distances.clamp(min=0).float().unsqueeze(-3)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        return at.shared


class ALiBiLearned(ALiBi):
    """ALiBi with one learned slope per head, shared by all layers. Its logarithm is the parameter, so m_h stays positive."""

    info = replace(
        ALiBi.info,
        name="alibi_learned",
        formula="s_ij = q_i·k_j/√d − m_h·(i − j), ln m_h learned, initialised to ln 2^(−8h/H)",
        provenance="McGill-NLP/length-generalization, type `alibi_learned`; an earlier x-transformers had the same",
        source="port",
    )

    def __init__(self, setup):
        super().__init__(setup)
        self.log_slopes = nn.Parameter(super().slopes().log())

    def slopes(self) -> Float[Tensor, " H"]:
        return self.log_slopes.exp()


class ALiBiHalf(ALiBi):
    """ALiBi in the first ⌈H/2⌉ heads, with the slopes of a model of ⌈H/2⌉ heads (1/16, 1/256 for H = 4); NoPE in the rest."""

    info = replace(
        ALiBi.info,
        name="alibi_half",
        formula="s_ij = q_i·k_j/√d − m_h·(i − j), m_h = 2^(−8h/n) for h ≤ n = ⌈H/2⌉, else 0",
        past="the bias stays linear in half of the heads; the others are unchanged",
        provenance="x-transformers, alibi_num_heads, which gives these slopes; the share of one half is our choice",
        source="port",
    )

    def slopes(self) -> Float[Tensor, " H"]:
        first_half = slopes((self.setup.heads + 1) // 2)
        return torch.tensor(first_half + [0.0] * (self.setup.heads - len(first_half)))


class NAPE(ALiBi):
    """ALiBi in the first ⌊H/2⌋ heads with slopes 1, 1/2, 1/3, …, steeper than ALiBi's own; NoPE in the rest."""

    info = replace(
        ALiBiHalf.info,
        name="nape",
        title="Long-Context Generalization with Sparse Attention",
        authors="Vasylenko, Pitorro, Martins, Treviso",
        year=2025,
        link="https://arxiv.org/abs/2506.16640",
        formula="s_ij = q_i·k_j/√d − m_h·(i − j), m_h = 1/h for h ≤ n = ⌊H/2⌋, else 0",
        provenance="deep-spin/asentmax, sparse_gemma.py, get_nape_slopes with its defaults (H // 2 heads, slopes 1/h)",
        source="official code",
    )

    def slopes(self) -> Float[Tensor, " H"]:
        half = self.setup.heads // 2
        return torch.tensor([1 / h for h in range(1, half + 1)] + [0.0] * (self.setup.heads - half))


class HardALiBi(ALiBi):
    """Head h of the first ⌊H/2⌋ sees only the last h tokens, h = 1, 2, …; the other heads are NoPE."""

    info = replace(
        ALiBi.info,
        name="hard_alibi",
        title="Repeat After Me: Transformers are Better than State Space Models at Copying",
        authors="Jelassi, Brandfonbrener, Kakade, Malach",
        year=2024,
        link="https://arxiv.org/abs/2402.01032",
        formula="s_ij = q_i·k_j/√d, in heads h ≤ ⌊H/2⌋ only over keys with i − j < h",
        past="unchanged: windows are fixed, and the other heads have no positions",
        provenance="sjelassi/transformers_ssm_copy, hard_alibi_model.py; half of the heads as in its default, 8 of 16",
        source="official code",
        lengths="windows of 1 … H/2 tokens, as published",
    )

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        windows = [h if h <= self.setup.heads // 2 else math.inf for h in range(1, self.setup.heads + 1)]
        r = at.distances.unsqueeze(-3)
        return -1e4 * (r >= torch.tensor(windows, device=r.device)[:, None, None]).float()
