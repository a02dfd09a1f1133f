"""RoPE with a larger base past L: fast pairs hardly change, the slowest pair is fully interpolated."""

from dataclasses import replace
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from .base import At
from .interpolation import stretch_factor
from .rope import RoPE, frequencies


def ntk_base(base: float, s: float, width: int) -> float:
    """base·s^(d/(d−2)): θ of the slowest pair becomes s times smaller. With a single pair, θ = 1 for any base."""
    return base * s ** (width / max(width - 2, 1))


class NTK(RoPE):
    """RoPE up to L; beyond, RoPE with the base that stretches L to L′. Zero-shot: it is not trained with that base."""

    info = replace(
        RoPE.info,
        name="ntk",
        title="NTK-Aware Scaled RoPE allows LLaMA models to have extended (8k+) context size without any fine-tuning and "
        "minimal perplexity degradation",
        authors="bloc97",
        year=2023,
        link="https://www.reddit.com/r/LocalLLaMA/comments/14lz7j5/",
        formula="`rope` with θ_t = (10000·s^(d/(d−2)))^(−2t/d), s = L′/L when N > L, else 1",
        past="the slowest pair stays within trained phases, faster pairs less and less",
        provenance="x-transformers, rotary_base_rescale_factor, and YaRN's code; applied only past L, our choice",
    )
    dynamic: ClassVar[bool] = False

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        d = self.setup.head_width
        return frequencies(d, ntk_base(self.base, stretch_factor(self.setup, at, self.dynamic), d))


class NTKDynamic(NTK):
    """NTK with the factor s of the current sequence rather than of the longest one."""

    info = replace(
        NTK.info,
        name="ntk_dynamic",
        title="Dynamically Scaled RoPE further increases performance of long context LLaMA with zero fine-tuning",
        authors="emozilla",
        link="https://www.reddit.com/r/LocalLLaMA/comments/14mrgpr/",
        formula="`rope` with θ_t = (10000·s^(d/(d−2)))^(−2t/d), s = max(1, N/L)",
        provenance="transformers, rope type `dynamic` with factor 1; the link from memory",
    )
    dynamic = True
