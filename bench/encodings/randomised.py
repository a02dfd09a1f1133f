"""Position ids drawn at random, in order: short sequences meet the ids of long ones."""

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from tasks import InputError

from .base import At, Info, Wrapper

ENTRIES = tuple(f"randomised({name})" for name in ("learned", "sinusoidal", "rope", "alibi", "t5", "fire"))


class Randomised(Wrapper):
    """The wrapped encoding with ids drawn without replacement from 0 … Lmax − 1 and sorted, in training and in tests.

    One draw a forward pass, shared by its rows and layers: as many ids as the announced length has tokens, of which a shorter
    tensor takes the first. ``longest`` is Lmax, the longest test length in tokens unless given.
    """

    info = Info(
        name="randomised",
        family="ids",
        title="Randomized Positional Encodings Boost Length Generalization of Transformers",
        authors="Ruoss, Delétang, Genewein, Grau-Moya, Csordás, Bennani, Legg, Veness",
        year=2023,
        link="https://arxiv.org/abs/2305.16843",
        formula="ids ← sort of a random subset of {0, …, Lmax − 1}",
        past="ids stay in the range met in training, at a density that grows with length",
        provenance="the authors' code, google-deepmind/randomized_positional_encodings; there Lmax is 2048, and RoPE and "
        "relative ids are drawn anew in every layer; here Lmax = L′, and one draw serves the pass",
        shift_invariant=True,
        random=True,
    )

    def __init__(self, setup, *, longest: int = 0):
        if longest and longest < setup.longest_tokens:
            raise InputError(f"randomised must cover the longest test: longest ≥ {setup.longest_tokens} tokens, got {longest}")
        super().__init__(replace(setup, longest_tokens=longest or setup.longest_tokens))  # tables inside grow with it

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Int[Tensor, " T"]:
        length, longest = tokens.shape[1], self.setup.longest_tokens
        if not length <= at.nominal <= longest:
            raise ValueError(f"randomised draws for {at.nominal} tokens of at most {longest}, got a sequence of {length}")
        drawn = torch.randperm(longest, generator=at.generator, device=tokens.device)
        return drawn[: at.nominal].sort().values[:length]
