"""A fixed penalty that grows with distance, at a different rate in each head."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .base import At, Encoding
from .bibliography import published


def slopes(heads: int) -> list[float]:
    """m_h = 2^(−8h/H), h = 1 … H. If H is not a power of two: the slopes of the next lower power, then every other slope of the
    next higher one."""
    power = 2 ** math.floor(math.log2(heads))
    first = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    return first if power == heads else first + slopes(2 * power)[::2][: heads - power]


class ALiBi(Encoding):
    """s_ij − m_h·(i − j), with m_h a geometric sequence over heads."""

    info = published(
        "alibi",
        family="bias",
        formula="s_ij = q_i·k_j/√d − m_h·(i − j), m_h = 2^(−8h/H)",
        past="the bias stays linear in the distance",
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

    info = published(
        "alibi_learned",
        like=ALiBi.info,
        formula="s_ij = q_i·k_j/√d − m_h·(i − j), ln m_h learned, initialised to ln 2^(−8h/H)",
    )

    def __init__(self, setup):
        super().__init__(setup)
        self.log_slopes = nn.Parameter(super().slopes().log())

    def slopes(self) -> Float[Tensor, " H"]:
        return self.log_slopes.exp()


class ALiBiHalf(ALiBi):
    """ALiBi in the first ⌈H/2⌉ heads, with the slopes of a model of ⌈H/2⌉ heads (1/16, 1/256 for H = 4); NoPE in the rest."""

    info = published(
        "alibi_half",
        like=ALiBi.info,
        formula="s_ij = q_i·k_j/√d − m_h·(i − j), m_h = 2^(−8h/n) for h ≤ n = ⌈H/2⌉, else 0",
        past="the bias stays linear in half of the heads; the others are unchanged",
    )

    def slopes(self) -> Float[Tensor, " H"]:
        first_half = slopes((self.setup.heads + 1) // 2)
        return torch.tensor(first_half + [0.0] * (self.setup.heads - len(first_half)))


class NAPE(ALiBi):
    """ALiBi in the first ⌊H/2⌋ heads with slopes 1, 1/2, 1/3, …, steeper than ALiBi's own; NoPE in the rest."""

    info = published(
        "nape",
        like=ALiBiHalf.info,
        formula="s_ij = q_i·k_j/√d − m_h·(i − j), m_h = 1/h for h ≤ n = ⌊H/2⌋, else 0",
    )

    def slopes(self) -> Float[Tensor, " H"]:
        half = self.setup.heads // 2
        return torch.tensor([1 / h for h in range(1, half + 1)] + [0.0] * (self.setup.heads - half))


class HardALiBi(ALiBi):
    """Head h of the first ⌊H/2⌋ sees only the last h tokens, h = 1, 2, …; the other heads are NoPE."""

    info = published(
        "hard_alibi",
        like=ALiBi.info,
        formula="s_ij = q_i·k_j/√d, in heads h ≤ ⌊H/2⌋ only over keys with i − j < h",
        past="unchanged: windows are fixed, and the other heads have no positions",
        lengths="windows of 1 … H/2 tokens, as published",
    )

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        windows = [h if h <= self.setup.heads // 2 else math.inf for h in range(1, self.setup.heads + 1)]
        r = at.distances.unsqueeze(-3)
        return -1e4 * (r >= torch.tensor(windows, device=r.device)[:, None, None]).float()
