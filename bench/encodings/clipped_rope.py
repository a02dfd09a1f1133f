"""RoPE whose slowest pairs are slowed down further, the slowest to a stop."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from .base import At
from .rope import RoPE

CLIPPED = 20 / 64
"""Share of pairs that the authors clip."""


class ClippedRoPE(RoPE):
    """RoPE with θ_t multiplied by weights that fall from 1 to 0 as half a cosine wave over the slowest n pairs.

    n is the authors' share of the pairs, rounded up.
    """

    info = replace(
        RoPE.info,
        name="clipped_rope",
        title="CoPE: Clipped RoPE as A Scalable Free Lunch for Long Context LLMs",
        authors="Li, Ren, Yuille, Wang",
        year=2026,
        link="https://arxiv.org/abs/2602.05258",
        formula="`rope` with θ_t·(1 + cos(π·c/(n − 1)))/2 for the slowest n pairs, c = 0 … n − 1",
        past="as `rope`, but its slowest pairs turn less, the last not at all",
        provenance="the authors' code, hrlics/CoPE, modeling_flash_llama_cope.py: the slowest 20 of 64 pairs; there further "
        "training of Llama 3 at base 10⁷ and YaRN past 64k tokens, here base 10000 from scratch and no YaRN",
        source="official code",
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

    info = replace(
        ClippedRoPE.info,
        name="clipped_rope_scaled",
        past="pairs with a period over L turn less, the last not at all",
        provenance="the authors' code, hrlics/CoPE, modeling_flash_llama_cope.py, with n by the paper's section 3.1, as in "
        "CoPE-29 of its table 4; there further training of Llama 3 and YaRN past 64k tokens, here base 10000 and no YaRN",
        lengths="n = pairs with a period over L, scaled; base 10000",
    )

    def clipped(self, thetas: Float[Tensor, " d/2"]) -> int:
        return int((thetas < 2 * math.pi / self.setup.train_tokens).sum())
