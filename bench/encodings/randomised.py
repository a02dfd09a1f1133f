"""Random increasing position ids, or random distances, so that short sequences use those of long ones."""

import math
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from tasks import InputError

from . import hooks
from .base import At, Wrapper, distances
from .bibliography import published

ENTRIES = (
    *(f"randomised({name})" for name in ("learned", "sinusoidal", "rope", "alibi", "t5", "fire")),
    *(f"randomised_scaled({name})" for name in ("learned", "rope", "alibi")),
)


class Randomised(Wrapper):
    """The wrapped encoding at random ids and distances, in training and in evaluation.

    Ids are drawn without replacement from 0 … Lmax − 1 and sorted. Encodings that use only distances (``At.distances``) get
    drawn ones: r_1 < r_2 < … from 1 … Lmax − 1, with key i − m at distance r_m from every query i; r_0 = 0. FIRE needs the
    query's position too, so it gets ids, as in mcleish7/arithmetic (which draws them in training only).

    All rows share a draw. An encoding added to the embeddings has one draw for all layers; any other one has a draw per layer.
    As many numbers are drawn as tokens are announced, of which a shorter tensor takes the first.
    """

    info = published(
        "randomised",
        family="ids",
        formula="ids ← sort of a random subset of {0 … Lmax − 1}; distance i − j = m ← m-th smallest of one of {1 … Lmax − 1}",
        past="ids and distances stay in the trained range, at a density that grows with length",
        lengths="Lmax = 2048, as published",
        shift_invariant=True,
        random=True,
    )
    combined_with = ("learned", "sinusoidal", "rope", "alibi", "fire")
    float_ids = False  # layers draw their own ids, which no outer wrapper can scale

    def __init__(self, setup, *, longest: int = 2048):
        if longest < setup.longest_tokens:
            raise InputError(
                f"randomised must cover the longest test: longest ≥ {setup.longest_tokens} tokens, got {longest}; "
                "that of randomised_scaled grows with it"
            )
        super().__init__(replace(setup, longest_tokens=longest))  # tables inside grow with it
        self.draws = 1 if "embed" in hooks(self.inner) else setup.layers

    def draw(self, count: int, low: int, at: At, device: torch.device) -> Int[Tensor, " count"]:
        """A random subset of low … Lmax − 1, in ascending order."""
        numbers = torch.randperm(self.setup.longest_tokens - low, generator=at.generator, device=device)
        return low + numbers[:count].sort().values

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Int[Tensor, " T"]:
        length, longest = tokens.shape[1], self.setup.longest_tokens
        if not length <= at.announced_length <= longest:
            raise ValueError(f"randomised draws {at.announced_length} ids of at most {longest}, got a sequence of {length}")
        return self.draw(at.announced_length, 0, at, tokens.device)[:length]

    def prepare(self, at: At) -> list[tuple]:
        """For each draw: ids, distances, and what the wrapped encoding prepares from them. The first has the pass's ids."""
        device, length, prepared = at.positions.device, at.positions.shape[-1], []
        steps = distances(torch.arange(length, device=device))
        for layer in range(self.draws):
            ids = at.positions if layer == 0 else self.draw(at.announced_length, 0, at, device)[:length]
            r = torch.nn.functional.pad(self.draw(at.announced_length - 1, 1, at, device), (1, 0))
            own = replace(at, layer=layer, ids=ids, drawn_distances=r[steps.abs()] * steps.sign())
            prepared.append((own.ids, own.drawn_distances, self.base.prepare(own)))
        return prepared

    def inner_at(self, at: At) -> At:
        ids, drawn, shared = at.shared[min(at.layer, self.draws - 1)]
        return replace(at, ids=ids, drawn_distances=drawn, shared=shared)


class RandomisedScaled(Randomised):
    """Randomised with an Lmax that grows with the longest test, as 2048 is to the 500 of the paper's longest."""

    info = published(
        "randomised_scaled",
        like=Randomised.info,
        lengths="Lmax = 2048/500·L′, scaled",
    )

    def __init__(self, setup):
        super().__init__(setup, longest=math.ceil(setup.longest_tokens * 2048 / 500))
