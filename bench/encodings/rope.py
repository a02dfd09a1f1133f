"""Queries and keys rotated by their position: RoPE, and variants that choose other frequencies or rotate only some channels."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from tasks import InputError

from .base import At, Encoding
from .bibliography import published


def frequencies(width: int, base: float, device: torch.device | None = None) -> Float[Tensor, " width/2"]:
    """θ_t = base^(−2t/width), t = 0 … width/2 − 1, in float64."""
    return base ** -(torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)


def rotate_pairs(
    x: Float[Tensor, "B H T d"], cos: Float[Tensor, "*B T d/2"], sin: Float[Tensor, "*B T d/2"]
) -> Float[Tensor, "B H T d"]:
    """(a, b) → (a·cos − b·sin, a·sin + b·cos) on the channel pairs (t, t + d/2)."""
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    if not (cos.requires_grad or sin.requires_grad):
        return RotatePairs.apply(x, cos, sin)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class RotatePairs(torch.autograd.Function):
    """``rotate_pairs`` for angles that are not learned, without temporaries; the backward pass rotates back."""

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
        return rotate_pairs(gradient, cos, -sin), None, None


class RoPE(Encoding):
    """Channel pair t of q_i and k_j is rotated by i·θ_t and j·θ_t, so that their product depends only on i − j."""

    info = published(
        "rope",
        family="rotary",
        formula="s_ij = R(i)q_i·R(j)k_j/√d, R(p) rotates pair t by p·θ_t, θ_t = 10000^(−2t/d)",
        past="defined, but slow pairs reach untrained phases",
        lengths="base 10000, as published",
        shift_invariant=True,
    )

    def __init__(self, setup, *, base: float = 10000.0):
        super().__init__(setup)
        self.base = base

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        """θ_t of every pair, in float64; 0 for a pair that is not rotated."""
        return frequencies(self.setup.head_width, self.base)

    def prepare(self, at: At) -> tuple[Tensor, ...]:
        ids = at.positions
        angles = ids[..., None].double() * self.thetas(at).to(ids.device)
        angles = angles.unsqueeze(-3)  # axis for the heads
        return angles.cos().float(), angles.sin().float()

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return rotate_pairs(q, *at.shared), rotate_pairs(k, *at.shared)


def scaled_base(length: int) -> float:
    """(L/2π)², at least 2 (L = 9). Pair t = d/4 has the wavelength 2π·√base, so that half of the pairs turn fully within L."""
    return max(2.0, (length / (2 * math.pi)) ** 2)


class RoPEScaled(RoPE):
    """RoPE with a base that follows from L, in tokens: half of the pairs make a full turn within L.

    In RoFormer (L = 512, d = 64, base 10,000) 16 of 32 pairs do. The rule gives 6,640 at L = 512 and 13.4 at L = 23.
    ``ntk_scaled`` and ``yarn_scaled`` inherit the base from this class.
    """

    info = published(
        "rope_scaled",
        like=RoPE.info,
        formula="`rope` with θ_t = b^(−2t/d), b = max(2, (L/2π)²)",
        past="as `rope`, but only half of the pairs reach untrained phases",
        lengths="base (L/2π)², scaled: half of the pairs turn within L",
    )

    def __init__(self, setup):
        super().__init__(setup, base=scaled_base(setup.train_tokens))


class RoPEPartial(RoPE):
    """RoPE on the first quarter of the channels, with θ_t from 1 to 1/base; the other channels have no position.

    A smaller base, as in ``rope_partial(base=100)``, leaves only fast pairs, the idea of RoPE-ID (arXiv 2603.18017).
    """

    info = published(
        "rope_partial",
        like=RoPE.info,
        formula="`rope` on the first r = d/4 channels, θ_t = 10000^(−2t/r)",
        past="as `rope`, but three quarters of the channels are unchanged",
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
        q, k = (torch.cat([rotate_pairs(x[..., :r], *at.shared), x[..., r:]], -1) for x in (q, k))
        return q, k


class PRoPE(RoPE):
    """RoPE without rotation in the slowest quarter of pairs, which then carry content regardless of distance."""

    info = published(
        "p_rope",
        like=RoPE.info,
        formula="`rope` with θ_t = 0 except for the fastest p = 0.75 of the pairs",
        past="as `rope`, without its slowest pairs",
    )

    def __init__(self, setup, *, base: float = 10000.0, p: float = 0.75):
        super().__init__(setup, base=base)
        if not 0 <= p <= 1:
            raise InputError(f"p of p_rope must be in [0, 1], got {p}")
        self.p = p

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        thetas = super().thetas(at)
        rotated = torch.arange(len(thetas)) < int(self.p * len(thetas))
        return thetas * rotated


class HoPE(RoPE):
    """RoPE that rotates only pairs with at least one full turn within L, so that no phase past L is untrained."""

    info = published(
        "hope",
        like=RoPE.info,
        formula="`rope` with θ_t = 0 where θ_t < 2π/L",
        past="no pair reaches an untrained phase",
        lengths="θ ≥ 2π/L, from L; base 10000, as published",
    )

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        thetas = super().thetas(at)
        return thetas * (thetas >= 2 * math.pi / self.setup.train_tokens)
