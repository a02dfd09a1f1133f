"""RoPE stretched by parts: fast pairs left alone, slow ones interpolated, a ramp between, and sharper attention."""

import math
from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from .base import At
from .interpolation import stretch
from .rope import RoPE


def ramp_range(width: int, base: float, length: int, fast: float = 32, slow: float = 1) -> tuple[int, int]:
    """Between which t the ramp lies: of the pairs that make 32 turns over ``length`` tokens, and one."""

    def pair(turns: float) -> float:
        return width * math.log(length / (2 * math.pi * turns)) / (2 * math.log(base))

    return max(math.floor(pair(fast)), 0), min(math.ceil(pair(slow)), width - 1)


def temperature(s: float) -> float:
    """m, by which queries and keys are multiplied when stretched s times, and so scores by m²."""
    return 0.1 * math.log(s) + 1


class YaRN(RoPE):
    """RoPE as trained up to L; past it, θ_t/s at the slow end of a ramp over t, θ_t at its fast end, and q and k times m.

    The ramp is that of the authors' code, linear in t; the paper's is linear in turns. At small L no pair makes 32 turns: the
    ramp starts at t = 0, which stays as it was.
    """

    info = replace(
        RoPE.info,
        name="yarn",
        title="YaRN: Efficient Context Window Extension of Large Language Models",
        authors="Peng, Quesnelle, Fan, Shippole",
        year=2023,
        link="https://arxiv.org/abs/2309.00071",
        formula="`rope` with θ_t·(1 − γ_t·(1 − 1/s)), γ_t = clip((t − lo)/(hi − lo), 0, 1), and q, k times m = 0.1·ln s + 1; "
        "s = L′/L when N > L, else 1",
        past="slow pairs stay in the phases met in training, fast ones do not change",
        provenance="the authors' code, jquesnelle/yarn, and transformers; applied past L alone, which is our choice",
    )
    dynamic: ClassVar[bool] = False

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        thetas = super().thetas(at)
        low, high = ramp_range(self.setup.head_width, self.base, self.setup.train_tokens)
        ramp = ((torch.arange(len(thetas), dtype=torch.float64) - low) / (high - low or 0.001)).clamp(0, 1)
        return thetas * (1 - ramp * (1 - 1 / stretch(self.setup, at, self.dynamic)))

    def prepare(self, at: At) -> tuple[Tensor, ...]:
        m = temperature(stretch(self.setup, at, self.dynamic))
        cos, sin = super().prepare(at)
        return m * cos, m * sin


class YaRNDynamic(YaRN):
    """YaRN with the s that the sequence at hand needs, rather than the longest."""

    info = replace(
        YaRN.info,
        name="yarn_dynamic",
        formula="`yarn` with s = max(1, N/L)",
        provenance="the authors' code, jquesnelle/yarn, LlamaDynamicYaRNScaledRotaryEmbedding",
    )
    dynamic = True
