"""Queries and keys rotated by their position: RoPE, and RoPE of which a part stays unturned."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from tasks import InputError

from .base import At, Encoding, Info


def frequencies(width: int, base: float) -> Float[Tensor, " width/2"]:
    """θ_t = base^(−2t/width), t = 0 … width/2 − 1, in float64."""
    return base ** -(torch.arange(0, width, 2, dtype=torch.float64) / width)


def turn(
    x: Float[Tensor, "B H T d"], cos: Float[Tensor, "*B T d/2"], sin: Float[Tensor, "*B T d/2"]
) -> Float[Tensor, "B H T d"]:
    """(a, b) → (a·cos − b·sin, a·sin + b·cos) on the pairs (t, t + d/2)."""
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    if not (cos.requires_grad or sin.requires_grad):
        return Turn.apply(x, cos, sin)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Turn(torch.autograd.Function):
    """The same for angles that are not learned, written straight into place; the gradient is turned back."""

    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        (a, b), (first, second) = x.chunk(2, -1), out.chunk(2, -1)
        torch.mul(a, cos, out=first).addcmul_(b, sin, value=-1)
        torch.mul(a, sin, out=second).addcmul_(b, cos)
        return out

    @staticmethod
    def backward(ctx, gradient):
        cos, sin = ctx.saved_tensors
        return turn(gradient, cos, -sin), None, None


class RoPE(Encoding):
    """Channel pair t of q_i and k_j turned by i·θ_t and j·θ_t, so that their product knows only i − j. All channels turn."""

    info = Info(
        name="rope",
        family="rotary",
        title="RoFormer: Enhanced Transformer with Rotary Position Embedding",
        authors="Su, Lu, Pan, Murtadha, Wen, Liu",
        year=2021,
        link="https://arxiv.org/abs/2104.09864",
        formula="s_ij = R(i)q_i·R(j)k_j/√d, R(p) turns pair t by p·θ_t, θ_t = 10000^(−2t/d)",
        past="defined, but slow pairs reach phases never met in training",
        provenance="the paper; pairs (t, t + d/2) as in Llama, equal to the paper's up to a permutation of channels",
        shift_invariant=True,
    )

    def __init__(self, setup, *, base: float = 10000.0):
        super().__init__(setup)
        self.base = base

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        """Of every pair, in float64; 0 for one that does not turn."""
        return frequencies(self.setup.head_width, self.base)

    def prepare(self, at: At) -> tuple[Tensor, ...]:
        ids = at.positions
        angles = ids[..., None].double() * self.thetas(at).to(ids.device)
        angles = angles.unsqueeze(-3)  # one axis for the heads
        return angles.cos().float(), angles.sin().float()

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return turn(q, *at.shared), turn(k, *at.shared)


class RoPEPartial(RoPE):
    """RoPE on the first quarter of the channels, whose θ_t span the whole range of 1 … 1/base; the others know no position."""

    info = replace(
        RoPE.info,
        name="rope_partial",
        title="GPT-NeoX-20B: An Open-Source Autoregressive Language Model",
        authors="Black et al.",
        year=2022,
        link="https://arxiv.org/abs/2204.06745",
        formula="`rope` on the first r = d/4 channels, θ_t = 10000^(−2t/r)",
        past="as `rope`, but three quarters of the channels are unchanged",
        provenance="the code of GPT-NeoX and McGill-NLP/length-generalization, where the share is 0.25 too",
    )

    def __init__(self, setup, *, base: float = 10000.0, share: float = 0.25):
        super().__init__(setup, base=base)
        if not 0 < share <= 1:
            raise InputError(f"share of rope_partial must be in (0, 1], got {share}")
        self.width = max(2, int(share * setup.head_width) // 2 * 2)

    def thetas(self, at: At) -> Float[Tensor, " r/2"]:
        return frequencies(self.width, self.base)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        r = self.width
        q, k = (torch.cat([turn(x[..., :r], *at.shared), x[..., r:]], -1) for x in (q, k))
        return q, k


class PRoPE(RoPE):
    """RoPE whose slowest quarter of pairs does not turn: they serve content, which no distance then disturbs."""

    info = replace(
        RoPE.info,
        name="p_rope",
        title="Round and Round We Go! What makes Rotary Positional Encodings useful?",
        authors="Barbero, Vitvitskyi, Perivolaropoulos, Pascanu, Veličković",
        year=2024,
        link="https://arxiv.org/abs/2410.06205",
        formula="`rope` with θ_t = 0 but for the fastest p = 0.75 of pairs",
        past="as `rope`, without its slowest pairs",
        provenance="transformers, rope type `proportional`; second-hand: that p = 0.75 is the paper's favourite",
    )

    def __init__(self, setup, *, base: float = 10000.0, p: float = 0.75):
        super().__init__(setup, base=base)
        if not 0 <= p <= 1:
            raise InputError(f"p of p_rope must be in [0, 1], got {p}")
        self.p = p

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        thetas = super().thetas(at)
        kept = torch.arange(len(thetas)) < int(self.p * len(thetas))
        return thetas * kept


class HoPE(RoPE):
    """RoPE in which only pairs turn that make a full turn within L: no phase past L is new to the model."""

    info = replace(
        RoPE.info,
        name="hope",
        title="HoPE: A Novel Positional Encoding Without Long-Term Decay for Enhanced Context Awareness and Extrapolation",
        authors="Chen, Lv, Luan, Wang, Liu",
        year=2024,
        link="https://arxiv.org/abs/2410.21216",
        formula="`rope` with θ_t = 0 where θ_t < 2π/L",
        past="no pair reaches a phase never met in training",
        provenance="second-hand: two independent ports, which agree; two later papers have the same name",
    )

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        thetas = super().thetas(at)
        return thetas * (thetas >= 2 * math.pi / self.setup.train_tokens)
