"""Position ids that are not 0 … T − 1: random real numbers, and two runs of ids with a gap."""

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from .base import At, Wrapper
from .bibliography import published
from .interpolation import require_float_ids

ENTRIES = ("random_floats(rope)", "random_floats(alibi)", "random_floats(sinusoidal)", "pose(rope)")


class RandomFloats(Wrapper):
    """The wrapped encoding at sorted uniform real numbers in [0, Lmax], in training and in evaluation; layers share a draw."""

    info = published(
        "random_floats",
        family="ids",
        formula="ids ← sort of n uniform numbers in [0, Lmax]",
        past="ids stay in the trained range, at a density that grows with length",
        lengths="Lmax = L′, scaled",
        shift_invariant=True,
        random=True,
    )

    combined_with = ("sinusoidal", "rope", "alibi")

    def __init_subclass__(cls) -> None:
        require_float_ids("random_floats", cls.inner)

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Float[Tensor, " T"]:
        drawn = torch.rand(at.announced_length, generator=at.generator, device=tokens.device)
        return self.setup.longest_tokens * drawn.sort().values[: tokens.shape[1]]


class PoSE(Wrapper):
    """Up to L, ids skip a random number once, so that distances up to those of L′ are trained; past L, ids are 0 … T − 1."""

    info = published(
        "pose",
        like=RandomFloats.info,
        formula="ids ← 0 … c − 1, then c + u …, c uniform in 1 … ⌊(n + 1)/2⌋ and u in 0 … L′ − n, in training",
        past="ids and distances up to those of L′ are trained",
        lengths="gap up to L′ − n, scaled",
        ranking="longer",
    )

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Real[Tensor, "*B T"]:
        ids = super().positions(tokens, at)
        if at.announced_length > self.setup.train_tokens:
            return ids
        device = tokens.device
        cut = 1 + torch.randint((at.announced_length + 1) // 2, (1,), generator=at.generator, device=device)
        gap = torch.randint(self.setup.longest_tokens - at.announced_length + 1, (1,), generator=at.generator, device=device)
        return ids + gap * (ids >= cut)
