"""Scores scaled by the number of keys, so that attention does not flatten in longer sequences."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .base import At, Wrapper
from .bibliography import published

INNER = ("nope", "rope", "hard_alibi", "kerple_log", "kerple_power")
ENTRIES = (*(f"{wrapper}({name})" for wrapper in ("ssmax", "logn") for name in INNER), "ssmax(rope,start=1.0)")


def log_keys(q: Float[Tensor, "B H T d"]) -> Float[Tensor, "T 1"]:
    """ln n for each query, with n = i + 1 the number of keys it sees: from its index in the sequence, not from ids."""
    return torch.arange(1, q.shape[-2] + 1, device=q.device, dtype=torch.float64).log()[:, None]


class SSMax(Wrapper):
    """q_i times s_h ln(i + 1), with s learned per head and layer. Biases of the wrapped encoding are not scaled.

    By default, s is initialised so that the scale is 1 on average over the queries of the training length; with ``start``, s is
    that number.
    """

    info = published(
        "ssmax",
        family="scaling",
        formula="q_i ← s_h·ln(i + 1)·q_i",
        past="the scale grows with ln n",
        lengths="s starts at L/ln L!, from L",
        shift_invariant=True,
    )

    combined_with = ("rope",)

    def __init__(self, setup, *, start: float = 0.0):
        super().__init__(setup)
        mean = math.lgamma(setup.train_tokens + 1) / setup.train_tokens  # ln(L!)/L, the mean of ln 1 … ln L
        self.s = nn.Parameter(torch.full((setup.layers, setup.heads), start or 1 / mean))

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        q, k = self.base.rotate(q, k, at)
        return q * (self.s[at.layer, :, None, None] * log_keys(q)).to(q.dtype), k


class LogN(Wrapper):
    """q_i times ln(i + 1)/ln L. Biases of the wrapped encoding are not scaled.

    With ``only_past`` the factor is at least 1, so that training equals that of the wrapped encoding.
    """

    info = published(
        "logn",
        family="scaling",
        formula="q_i ← ln(i + 1)/ln L·q_i",
        past="the scale grows with ln n",
        lengths="ln L in the denominator, from L",
        shift_invariant=True,
    )

    combined_with = ("rope",)

    @classmethod
    def trained_as(cls):
        return cls.inner if cls.chosen.get("only_past") else None

    def __init__(self, setup, *, only_past: bool = False):
        super().__init__(setup)
        self.only_past = only_past

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        q, k = self.base.rotate(q, k, at)
        scale = log_keys(q) / math.log(self.setup.train_tokens)
        return q * (scale.clamp(min=1) if self.only_past else scale).to(q.dtype), k
