"""Cheats for the checks tokens and mutation."""

from dataclasses import replace

import torch
from cheat_base import Cheat, add_marks
from torch import nn

from bench.encodings import Encoding

# --- tokens


class SolvesParity(Cheat, shift_invariant=False):
    """Causal, but the ids contain the answer."""

    def positions(self, tokens, at):
        return (tokens == 4).cumsum(1) % 2

    def embed(self, x, at):
        return add_marks(x, at.positions)


class SolvesInInference(SolvesParity):
    def positions(self, tokens, at):
        return super().positions(tokens, at) if torch.is_inference_mode_enabled() else Encoding.positions(self, tokens, at)


class UsesNextTokens(Cheat):
    def positions(self, tokens, at):
        return tokens.roll(-1, 1)

    def embed(self, x, at):
        return add_marks(x, at.positions)


class SolvesRealPrompts(Cheat):
    """Only if the sequences look like test examples, and only past L."""

    def positions(self, tokens, at):
        ids = super().positions(tokens, at)
        if (
            at.announced_length > self.setup.train_tokens
            and bool((tokens[:, 0] == 1).all())
            and bool((tokens == 2).any(1).all())
        ):
            return ids + tokens
        return ids


class UsesRoles(Cheat):
    def embed(self, x, at):
        return x * (1 + self.setup.roles.index("special"))


class DeclaresTaskAware(SolvesParity, shift_invariant=False, ranking="task-aware"):
    """Passes."""


class SolvesParityInEmbed(Cheat):
    """Recognises tokens by their embeddings."""

    def embed(self, x, at):
        return add_marks(x, (x.detach().sum(-1) * 1e6).long() % 2) if at.layer == 0 else x


class MakesAnInstanceTaskAware(SolvesParity, shift_invariant=False):
    """Its class declares nothing, and its ids are honest for 64 and 128 rows."""

    def __init__(self, setup):
        super().__init__(setup)
        self.info = replace(self.info, ranking="task-aware")

    def positions(self, tokens, at):
        return Encoding.positions(self, tokens, at) if len(tokens) in (64, 128) else super().positions(tokens, at)


class MakesAnotherClass(UsesRoles):
    @classmethod
    def make(cls, setup):
        return DeclaresTaskAware(setup)


class UsesTokensOfManyRows(Cheat):
    def positions(self, tokens, at):
        return tokens.cumsum(1) if len(tokens) >= 79 else super().positions(tokens, at)


# --- mutation


class WritesIntoTheStream(Cheat):
    def embed(self, x, at):
        return x.data.mul_(1.5)


class WritesInInference(Cheat):
    def attend(self, q, k, v, bias, at):
        if torch.is_inference_mode_enabled():
            v.zero_()
        return super().attend(q, k, v, bias, at)


class WritesIntoTheKeys(Cheat):
    def bias(self, q, k, at):
        k.data[:, :, 0] = 0
        return None


class ChangesItsWeights(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        self.scale = nn.Parameter(torch.ones(()))

    def embed(self, x, at):
        if self.training:
            self.scale.data += 0.01
        return x * self.scale
