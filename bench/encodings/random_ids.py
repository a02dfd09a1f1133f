"""Position ids of trainings that are not 0 … T − 1: random real numbers, and two runs of ids with a gap."""

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from .base import At, Wrapper
from .bibliography import published
from .interpolation import require_float_ids

ENTRIES = ("random_floats(rope)", "random_floats(alibi)", "random_floats(sinusoidal)", "pose(rope)")


class RandomFloats(Wrapper):
    """The wrapped encoding at sorted uniform real numbers in [0, Lmax) in training, at even steps in that range in tests."""

    info = published("random_floats")

    combined_with = ("sinusoidal", "rope", "alibi")

    def __init_subclass__(cls) -> None:
        require_float_ids("random_floats", cls.inner)

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Float[Tensor, " T"]:
        length, device = at.announced_length, tokens.device
        if self.training:
            places = torch.rand(length, generator=at.generator, device=device).sort().values
        else:
            places = (torch.arange(length, device=device) + 0.5) / max(length, self.setup.train_tokens)
        return self.setup.longest_tokens * places[: tokens.shape[1]]


class PoSE(Wrapper):
    """In training, ids skip a random number once, so that distances up to those of L′ are trained."""

    info = published("pose", like=RandomFloats.info)

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Real[Tensor, "*B T"]:
        ids = super().positions(tokens, at)
        if not self.training:
            return ids
        device = tokens.device
        cut = 1 + torch.randint((at.announced_length + 1) // 2, (1,), generator=at.generator, device=device)
        gap = torch.randint(self.setup.longest_tokens - at.announced_length + 1, (1,), generator=at.generator, device=device)
        return ids + gap * (ids >= cut)
