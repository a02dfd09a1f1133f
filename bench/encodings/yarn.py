"""RoPE stretched by parts: fast pairs unchanged, slow pairs interpolated, a ramp in between, and sharper attention."""

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from .base import At
from .bibliography import published
from .compose import with_settings
from .interpolation import stretch_factor
from .rope import RoPE, RoPEScaled


def ramp_range(width: int, base: float, length: int, fast: float = 32, slow: float = 1) -> tuple[int, int]:
    """First and last t of the ramp: the pairs that make ``fast`` and ``slow`` turns over ``length`` tokens."""

    def pair(turns: float) -> float:
        return width * math.log(length / (2 * math.pi * turns)) / (2 * math.log(base))

    return max(math.floor(pair(fast)), 0), min(math.ceil(pair(slow)), width - 1)


def temperature(s: float) -> float:
    """Factor m of queries and keys for a stretch factor s; scores are multiplied by m²."""
    return 0.1 * math.log(s) + 1


class YaRN(RoPE):
    """RoPE up to L; beyond, a ramp over t from θ_t (fast pairs) to θ_t/s (slow pairs), and q and k times m.

    The ramp is linear in t, as in the authors' code; the paper's is linear in the number of turns. At small L no pair makes 32
    turns, so the ramp starts at t = 0, which is unchanged.
    """

    info = published(
        "yarn",
        like=RoPE.info,
        formula="`rope` with θ_t·(1 − γ_t·(1 − 1/s)), γ_t = clip((t − lo)/(hi − lo), 0, 1), and q, k times m = 0.1·ln s + 1; "
        "s = L′/L when N > L, else 1",
        past="slow pairs stay within trained phases, fast pairs do not change",
        lengths="s = L′/L; ramp by turns within L; base 10000, as published",
    )
    dynamic: ClassVar[bool] = False

    @classmethod
    def trained_as(cls):
        return with_settings(RoPE, cls.chosen)

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        thetas = super().thetas(at)
        low, high = ramp_range(self.setup.head_width, self.base, self.setup.train_tokens)
        ramp = ((torch.arange(len(thetas), dtype=torch.float64) - low) / (high - low or 0.001)).clamp(0, 1)
        return thetas * (1 - ramp * (1 - 1 / stretch_factor(self.setup, at, self.dynamic)))

    def prepare(self, at: At) -> tuple[Tensor, ...]:
        m = temperature(stretch_factor(self.setup, at, self.dynamic))
        cos, sin = super().prepare(at)
        return m * cos, m * sin


class YaRNDynamic(YaRN):
    """YaRN with the factor s of the current sequence rather than of the longest one."""

    info = published(
        "yarn_dynamic",
        like=YaRN.info,
        formula="`yarn` with s = max(1, N/L)",
        lengths="s = N/L; ramp by turns within L; base 10000, as published",
    )
    dynamic = True

    @classmethod
    def trained_as(cls):
        return with_settings(RoPE, cls.chosen)


class YaRNScaled(RoPEScaled, YaRN):
    """YaRN on ``rope_scaled``."""

    info = published(
        "yarn_scaled",
        like=YaRN.info,
        formula="`yarn` on `rope_scaled`, θ_t = (L/2π)^(−4t/d)",
        lengths="s = L′/L; ramp by turns within L; base (L/2π)², scaled",
    )

    @classmethod
    def trained_as(cls):
        return RoPEScaled
