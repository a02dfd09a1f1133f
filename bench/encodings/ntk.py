"""RoPE stretched by a larger base: fast pairs hardly change, the slowest is interpolated in full."""

from dataclasses import replace
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from .base import At
from .interpolation import stretch
from .rope import RoPE, frequencies


def ntk_base(base: float, s: float, width: int) -> float:
    """base·s^(d/(d−2)), which makes θ of the slowest pair s times slower. A single pair turns at 1 whatever the base."""
    return base * s ** (width / max(width - 2, 1))


class NTK(RoPE):
    """RoPE as trained up to L; past it, with the base that stretches L to L′. No training at that base: zero-shot."""

    info = replace(
        RoPE.info,
        name="ntk",
        title="NTK-Aware Scaled RoPE allows LLaMA models to have extended (8k+) context size without any fine-tuning and "
        "minimal perplexity degradation",
        authors="bloc97",
        year=2023,
        link="https://www.reddit.com/r/LocalLLaMA/comments/14lz7j5/",
        formula="`rope` with θ_t = (10000·s^(d/(d−2)))^(−2t/d), s = L′/L when N > L, else 1",
        past="the slowest pair stays in the phases met in training, the faster ones ever less",
        provenance="x-transformers, rotary_base_rescale_factor, and YaRN's code; applied past L alone, our choice",
    )
    dynamic: ClassVar[bool] = False

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        d = self.setup.head_width
        return frequencies(d, ntk_base(self.base, stretch(self.setup, at, self.dynamic), d))


class NTKDynamic(NTK):
    """NTK with the s that the sequence at hand needs, rather than the longest."""

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
