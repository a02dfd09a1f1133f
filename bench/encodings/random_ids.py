"""Position ids that are not 0 … T − 1: random real numbers, and two runs of ids with a gap."""

from dataclasses import replace

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor

from tasks import InputError

from .base import At, Info, Wrapper

ENTRIES = ("random_floats(rope)", "random_floats(alibi)", "random_floats(sinusoidal)", "pose(rope)")


class RandomFloats(Wrapper):
    """The wrapped encoding at sorted uniform real numbers from 0 … Lmax, in training and in evaluation; one draw for all layers."""

    info = Info(
        name="random_floats",
        family="ids",
        title="Random Float Sampling for Length Generalization",
        authors="see the paper",
        year=2026,
        link="https://arxiv.org/abs/2602.14050",
        formula="ids ← sort of n uniform numbers in [0, Lmax]",
        past="ids stay in the trained range, at a density that grows with length",
        provenance="the abstract; Lmax = L′ in tokens is our choice",
        source="second-hand",
        lengths="Lmax = L′, scaled",
        shift_invariant=True,
        random=True,
    )

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Float[Tensor, " T"]:
        if not self.base.float_ids:
            raise InputError(f"random_floats needs an encoding of real ids, which {self.base.info.name} is not")
        drawn = torch.rand(at.announced_length, generator=at.generator, device=tokens.device)
        return self.setup.longest_tokens * drawn.sort().values[: tokens.shape[1]]


class PoSE(Wrapper):
    """Up to L, ids skip a random number once, so that ids up to those of L′ are trained; past L they are 0 … T − 1."""

    info = replace(
        RandomFloats.info,
        name="pose",
        title="PoSE: Efficient Context Window Extension of LLMs via Positional Skip-wise Training",
        authors="Zhu, Yang, Wang, Song, Wu, Wei, Li",
        year=2024,
        link="https://arxiv.org/abs/2309.10400",
        formula="ids ← 0 … c − 1, then c + u …, with c uniform in 1 … n − 1 and u in 0 … L′ − n, in training",
        past="ids and distances up to those of L′ are trained",
        provenance="dwzhu-pku/PoSE, two chunks; there further training of RoPE with interpolation, here from scratch",
        source="second-hand",
        lengths="gap up to L′ − n",
    )

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Real[Tensor, "*B T"]:
        ids = super().positions(tokens, at)
        if at.announced_length > self.setup.train_tokens:
            return ids
        device = tokens.device
        cut = 1 + torch.randint(max(1, at.announced_length - 1), (1,), generator=at.generator, device=device)
        gap = torch.randint(self.setup.longest_tokens - at.announced_length + 1, (1,), generator=at.generator, device=device)
        return ids + gap * (ids >= cut)
