"""Random increasing position ids, so that short sequences use the ids of long ones."""

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from tasks import InputError

from .base import At, Info, Wrapper

ENTRIES = tuple(f"randomised({name})" for name in ("learned", "sinusoidal", "rope", "alibi", "t5", "fire"))


class Randomised(Wrapper):
    """The wrapped encoding with ids drawn without replacement from 0 … Lmax − 1 and sorted, in training and in evaluation.

    One draw per forward pass, shared by rows and layers: as many ids as announced tokens, of which a shorter tensor takes the
    first. ``longest`` is Lmax in tokens, by default the longest test length.
    """

    info = Info(
        name="randomised",
        family="ids",
        title="Randomized Positional Encodings Boost Length Generalization of Transformers",
        authors="Ruoss, Delétang, Genewein, Grau-Moya, Csordás, Bennani, Legg, Veness",
        year=2023,
        link="https://arxiv.org/abs/2305.16843",
        formula="ids ← sort of a random subset of {0, …, Lmax − 1}",
        past="ids stay in the trained range, at a density that grows with length",
        provenance="the authors' code, google-deepmind/randomized_positional_encodings; there Lmax is 2048, and RoPE and "
        "relative ids are drawn again in every layer; here Lmax = L′, with one draw per forward pass",
        shift_invariant=True,
        random=True,
    )

    def __init__(self, setup, *, longest: int = 0):
        if longest and longest < setup.longest_tokens:
            raise InputError(f"randomised must cover the longest test: longest ≥ {setup.longest_tokens} tokens, got {longest}")
        super().__init__(replace(setup, longest_tokens=longest or setup.longest_tokens))  # tables inside grow with it

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Int[Tensor, " T"]:
        length, longest = tokens.shape[1], self.setup.longest_tokens
        if not length <= at.announced_length <= longest:
            raise ValueError(f"randomised draws {at.announced_length} ids of at most {longest}, got a sequence of {length}")
        drawn = torch.randperm(longest, generator=at.generator, device=tokens.device)
        return drawn[: at.announced_length].sort().values[:length]
