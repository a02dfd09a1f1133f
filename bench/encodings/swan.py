"""Interleaved layers: global attention without positions, and RoPE on a local window; sharper attention in long sequences."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from tasks import InputError

from .base import At
from .bibliography import published
from .rope import RoPE


class Swan(RoPE):
    """Layers 0, 4, 8, … are NoPE over all keys; the others are RoPE over keys with i − j < w.

    In sequences longer than L, q_i of the NoPE layers is multiplied by log_a(a + i), a = L.
    """

    info = published(
        "swan",
        like=RoPE.info,
        formula="`nope` in layers 0, 4, …, times log_L(L + i) past L; else `rope` (base 10⁶) over i − j < w",
        past="local layers see no distance past w; the scale of the others grows with ln i",
        lengths="w = 512 and base 10⁶, as published; a = L",
    )

    def __init__(self, setup, *, base: float = 1e6, window: int = 512):
        super().__init__(setup, base=base)
        if window < 1:
            raise InputError(f"swan needs window ≥ 1, got {window}")
        self.window = window

    def is_nope(self, at: At) -> bool:
        return at.layer % 4 == 0

    def prepare(self, at: At) -> tuple[Tensor, ...]:
        outside = at.distances >= self.window
        return *super().prepare(at), -1e4 * outside.float().unsqueeze(-3)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        L = self.setup.train_tokens
        if not self.is_nope(at):
            return super().rotate(q, k, replace(at, shared=at.shared[:2]))
        if at.announced_length <= L:
            return q, k
        scale = (L + torch.arange(q.shape[-2], device=q.device, dtype=torch.float64)).log() / math.log(L)
        return q * scale[:, None].to(q.dtype), k

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B 1 T T"] | None:
        return None if self.is_nope(at) else at.shared[-1]


class SwanScaled(Swan):
    """SWAN with w = L/2, the ratio of the models that its authors train at L = 1,024."""

    info = published(
        "swan_scaled",
        like=Swan.info,
        formula="`nope` in layers 0, 4, …, times log_L(L + i) past L; else `rope` (base 10⁶) over i − j < L/2",
        lengths="w = L/2, scaled; base 10⁶, as published; a = L",
    )

    def __init__(self, setup, *, base: float = 1e6):
        super().__init__(setup, base=base, window=(setup.train_tokens + 1) // 2)
