"""Alternating layers: most use RoPE, in two forms on a local window; the others attend to all tokens without positions."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from .base import At
from .bibliography import published
from .rope import RoPE


class RoPENoPE(RoPE):
    """Every fourth layer is NoPE, the others are RoPE.

    In a model of fewer than four layers the last one is NoPE; Cohere 2 then has none. The published window of RoPE layers, 4096
    tokens, is longer than every sequence here and left out.
    """

    info = published("rope_nope", like=RoPE.info)

    def __init__(self, setup, *, base: float = 10000.0, every: int = 4):
        super().__init__(setup, base=base)
        self.every = min(every, setup.layers)

    def is_nope(self, at: At) -> bool:
        return (at.layer + 1) % self.every == 0

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return (q, k) if self.is_nope(at) else super().rotate(q, k, replace(at, shared=at.shared[:2]))


class Swan(RoPENoPE):
    """Layers 0, 4, 8, … are NoPE over all keys; the others are RoPE over keys with i − j < w.

    In sequences longer than L, q_i of the NoPE layers is multiplied by log_a(a + i), a = L.
    """

    info = published("swan", like=RoPE.info)

    def __init__(self, setup, *, base: float = 1e6, window: int = 512):
        super().__init__(setup, base=base)
        self.window = window

    def is_nope(self, at: At) -> bool:
        return at.layer % 4 == 0

    def prepare(self, at: At) -> tuple[Tensor, ...]:
        return *super().prepare(at), -1e4 * (at.distances >= self.window).float().unsqueeze(-3)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        q, k = super().rotate(q, k, at)
        L = self.setup.train_tokens
        if not self.is_nope(at) or at.announced_length <= L:
            return q, k
        scale = (L + torch.arange(q.shape[-2], device=q.device, dtype=torch.float64)).log() / math.log(L)
        return q * scale[:, None].to(q.dtype), k

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B 1 T T"] | None:
        return None if self.is_nope(at) else at.shared[-1]
