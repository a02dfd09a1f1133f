"""RoPE whose slowest pairs are slowed down further, the slowest to a stop."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from .base import At
from .bibliography import published
from .rope import RoPE

CLIPPED = 20 / 64
"""Share of pairs that the authors clip."""


class ClippedRoPE(RoPE):
    """RoPE with θ_t multiplied by weights that fall from 1 to 0 as half a cosine wave over the slowest n pairs.

    n is the authors' share of the pairs, rounded up.
    """

    info = published(
        "clipped_rope",
        like=RoPE.info,
        formula="`rope` with θ_t·(1 + cos(π·c/(n − 1)))/2 for the slowest n pairs, c = 0 … n − 1",
        past="as `rope`, but its slowest pairs turn less, the last not at all",
        lengths="n = 20/64 of the pairs, as published; base 10000",
    )

    def clipped(self, thetas: Float[Tensor, " d/2"]) -> int:
        """Return n."""
        return math.ceil(CLIPPED * len(thetas))

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        thetas = super().thetas(at)
        n = self.clipped(thetas)
        if n:
            thetas[-n:] *= 0.5 + 0.5 * torch.linspace(0, math.pi, n, dtype=thetas.dtype).cos()
        return thetas


class ClippedRoPEScaled(ClippedRoPE):
    """Clipped RoPE whose clipped pairs are those with a period over L."""

    info = published(
        "clipped_rope_scaled",
        like=ClippedRoPE.info,
        past="pairs with a period over L turn less, the last not at all",
        lengths="n = pairs with a period over L, scaled; base 10000",
    )

    def clipped(self, thetas: Float[Tensor, " d/2"]) -> int:
        return int((thetas < 2 * math.pi / self.setup.train_tokens).sum())
