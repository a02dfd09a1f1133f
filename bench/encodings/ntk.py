"""RoPE with a larger base past L: fast pairs hardly change, the slowest pair is fully interpolated."""

from dataclasses import replace
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from .base import At
from .compose import with_settings
from .interpolation import stretch_factor
from .rope import RoPE, RoPEScaled, frequencies


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
        provenance="the author's code in jquesnelle/yarn, LlamaNTKScaledRotaryEmbedding; applied only past L, our choice",
        lengths="s = L′/L; base 10000, as published",
    )
    dynamic: ClassVar[bool] = False

    @classmethod
    def trained_as(cls):
        return with_settings(RoPE, cls.chosen)

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
        provenance="the author's code in jquesnelle/yarn, LlamaDynamicScaledRotaryEmbedding with ntk; the link is from memory",
        lengths="s = N/L; base 10000, as published",
    )
    dynamic = True

    @classmethod
    def trained_as(cls):
        return with_settings(RoPE, cls.chosen)


class NTKScaled(RoPEScaled, NTK):
    """NTK on ``rope_scaled``."""

    info = replace(
        NTK.info,
        name="ntk_scaled",
        formula="`ntk` with (L/2π)² in place of 10000",
        provenance="`ntk` and `rope_scaled`, our choice",
        source="own variant",
        lengths="s = L′/L; base (L/2π)², scaled",
    )

    @classmethod
    def trained_as(cls):
        return RoPEScaled
