"""Alternating layers: most use RoPE, in one form on a local window; the others attend to all tokens without positions."""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from tasks import InputError

from .base import At
from .bibliography import published
from .rope import RoPE


class RoPENoPE(RoPE):
    """Every fourth layer is NoPE, the others are RoPE.

    In a model of fewer than four layers the last one is NoPE; Cohere 2 then has none. The published window of RoPE layers, 4096
    tokens, is longer than every sequence here and left out.
    """

    info = published(
        "rope_nope",
        like=RoPE.info,
        formula="`nope` in layers l with l + 1 divisible by 4, else `rope` (over i − j < 4096, which is all)",
        past="as `rope` in RoPE layers; NoPE layers are unchanged",
        lengths="w = 4096 (never reached), base 10000, as published",
    )

    def __init__(self, setup, *, base: float = 10000.0, every: int = 4):
        super().__init__(setup, base=base)
        if every < 1:
            raise InputError(f"rope_nope needs every ≥ 1, got {every}")
        self.every = min(every, setup.layers)

    def is_nope(self, at: At) -> bool:
        return (at.layer + 1) % self.every == 0

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return (q, k) if self.is_nope(at) else super().rotate(q, k, at)


class RoPENoPEScaled(RoPENoPE):
    """rope_nope with RoPE over keys with i − j < w, w = L/2 tokens by default.

    So RoPE never sees a distance it was not trained on; only the NoPE layers look further back.
    """

    info = published(
        "rope_nope_scaled",
        like=RoPENoPE.info,
        formula="`nope` in layers l with l + 1 divisible by 4, else `rope` over i − j < w = L/2",
        past="RoPE layers see no untrained distance; NoPE layers are unchanged",
        lengths="w = L/2, scaled; base 10000, as published",
    )

    def __init__(self, setup, *, base: float = 10000.0, every: int = 4, window: int = 0):
        super().__init__(setup, base=base, every=every)
        if window < 0:
            raise InputError(f"rope_nope_scaled needs window ≥ 0 (0 means L/2), got {window}")
        self.window = window or (setup.train_tokens + 1) // 2

    def prepare(self, at: At) -> tuple[Tensor, ...]:
        outside = at.distances >= self.window
        return *super().prepare(at), -1e4 * outside.float().unsqueeze(-3)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return super().rotate(q, k, replace(at, shared=at.shared[:2]))

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B 1 T T"] | None:
        return None if self.is_nope(at) else at.shared[-1]
