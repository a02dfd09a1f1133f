"""RoPE with slower pairs past L: fast pairs hardly change, the slowest pair is fully interpolated."""

import math
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from .base import At, Encoding
from .bibliography import published
from .compose import with_settings
from .interpolation import stretch_factor
from .rope import RoPE, RoPEScaled, frequencies


def as_rope(cls: type[Encoding]) -> type[Encoding]:
    """``trained_as`` of encodings that train as RoPE with their base."""
    return with_settings(RoPE, {name: value for name, value in cls.chosen.items() if name == "base"})


class NTK(RoPE):
    """RoPE up to L; beyond, RoPE with the base that stretches L to L′. Zero-shot: it is not trained with that base."""

    info = published("ntk", like=RoPE.info)
    trained_as = classmethod(as_rope)
    dynamic: ClassVar[bool] = False

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        d, s = self.setup.head_width, stretch_factor(self.setup, at, self.dynamic)
        # θ of the slowest pair becomes s times smaller. With a single pair, θ = 1 for any base.
        return frequencies(d, self.base * s ** (d / max(d - 2, 1)))


class NTKDynamic(NTK):
    """NTK with the factor s of the current sequence rather than of the longest one."""

    info = published("ntk_dynamic", like=NTK.info)
    trained_as = classmethod(as_rope)
    dynamic = True


class NTKScaled(RoPEScaled, NTK):
    """NTK on ``rope_scaled``."""

    info = published("ntk_scaled", like=NTK.info)

    @classmethod
    def trained_as(cls):
        return RoPEScaled


class Llama3(NTK):
    """RoPE up to L; beyond, pairs with more than 4 turns within L as they are, those with less than one interpolated by L′/L.

    In between, the share of θ_t that is kept grows with the number of turns. Zero-shot here; Llama 3.1 is trained with it.
    """

    info = published("llama3", like=NTK.info)
    trained_as = classmethod(as_rope)

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        thetas = frequencies(self.setup.head_width, self.base)
        kept = ((self.setup.train_tokens * thetas / (2 * math.pi) - 1) / 3).clamp(0, 1)
        return thetas * (kept + (1 - kept) / stretch_factor(self.setup, at, dynamic=False))
