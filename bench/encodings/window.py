"""Baselines that explain: attention to the last tokens only, and to these and the first tokens.

An encoding that a window reproduces does not use far text; it only does not suffer from it.
"""

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from tasks import InputError

from .base import At, Wrapper
from .bibliography import published

ENTRIES = (
    "window(nope)",
    "window(rope)",
    "window(nope,share=0.25)",
    "sink(nope)",
    "sink(rope)",
    "window(rope,tests_only=True)",
)
HIDDEN = -1e4
"""The bias of a hidden key, finite as the rules ask; exp(−10⁴) is 0 in float32."""


class Window(Wrapper):
    """The wrapped encoding where each query sees its last w tokens, itself included; w = ``share``·L.

    With ``tests_only`` the window applies to lengths beyond L only: it shows what a trained model loses without far tokens.
    """

    info = published("window")
    first: ClassVar[int] = 0
    """Number of first tokens that every query sees too."""

    def __init__(self, setup, *, share: float = 1.0, tests_only: bool = False):
        super().__init__(setup)
        if not 0 < share <= 1:
            raise InputError(f"share of {self.info.name} must be in (0, 1], got {share}")
        self.width, self.tests_only = max(1, round(share * setup.train_tokens)), tests_only

    @classmethod
    def trained_as(cls):
        return cls.inner if cls.chosen.get("tests_only") else None

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"] | None:
        bias = super().bias(q, k, at)
        if self.tests_only and at.announced_length <= self.setup.train_tokens:
            return bias
        index = torch.arange(q.shape[-2], device=q.device)  # places in the sequence, whatever the ids are
        visible = (index[:, None] - index < self.width) | (index < self.first)
        hidden = HIDDEN * (~visible).to(q.dtype)
        return hidden[None, None] if bias is None else bias + hidden


class Sink(Window):
    """``window`` where every query also sees the first four tokens."""

    info = published("sink", like=Window.info)
    first = 4
