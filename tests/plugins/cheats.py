"""Encodings that break a rule, each caught by one check of ``lprime check`` or by the judge of a sealed run; two pass."""

import os
import re
from dataclasses import replace

import torch
from torch import nn

from bench.encodings import Encoding, Info, Stage

HONEST = Info(
    name="honest",
    family="none",
    title="A title",
    authors="Somebody",
    year=2026,
    link="https://example.org/honest",
    formula="s_ij = q_i·k_j/√d",
    past="nothing changes",
    provenance="made for tests",
    shift_invariant=True,
)


class Cheat(Encoding):
    """An encoding whose info is ``HONEST`` with the class's name and the changes given as class arguments."""

    def __init_subclass__(cls, **changes: object):
        cls.info = replace(HONEST, name=re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower(), **changes)
        super().__init_subclass__()


def add_marks(x, numbers):
    """Add a number to each position in half of the channels, so that the norm does not remove it."""
    half = torch.arange(x.shape[-1], device=x.device) < x.shape[-1] // 2
    return x + numbers.to(x)[..., None] * half


# --- contract


class DeclaresNothing(Cheat, title="", link="example.org"):
    pass


class HasPositionalSettings(Cheat):
    def __init__(self, setup, base=3.0):
        super().__init__(setup)


class LearnsInItsStage(Cheat, ranking="longer"):
    """Passes: a parameter is used only after the stage has begun."""

    stage = Stage()

    def __init__(self, setup):
        super().__init__(setup)
        self.rate = nn.Parameter(torch.ones(()))

    def bias(self, q, k, at):
        return -self.rate * at.distances.clamp(min=0).float() if at.after_stage else None


class WritesIntoTheStream(Cheat):
    def embed(self, x, at):
        return x.data.mul_(1.5)


class ChangesItsWeights(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        self.scale = nn.Parameter(torch.ones(()))

    def embed(self, x, at):
        if self.training:
            self.scale.data += 0.01
        return x * self.scale


class GivesInfinity(Cheat):
    def bias(self, q, k, at):
        return q.new_full((), float("-inf"))


class GivesAnotherShape(Cheat):
    def bias(self, q, k, at):
        return q.new_zeros(q.shape[1], q.shape[2] + 1)


class UsesTokens(Cheat, shift_invariant=False):
    """Causal, but the ids contain the answer."""

    def positions(self, tokens, at):
        return (tokens == 4).cumsum(1) % 2

    def embed(self, x, at):
        return add_marks(x, at.positions)


class DeclaresTaskAware(UsesTokens, shift_invariant=False, ranking="task-aware"):
    """Passes."""


class MakesAnotherClass(Cheat):
    @classmethod
    def make(cls, setup):
        return DeclaresTaskAware(setup)


# --- causality


class Peeks(Cheat):
    """Adds the next token's embedding if ``when`` returns True."""

    def when(self, at):
        return at.layer == 0

    def embed(self, x, at):
        return x + 0.5 * x.roll(-1, 1) if self.when(at) else x


class PeeksInEvaluation(Peeks):
    def when(self, at):
        return at.layer == 0 and not self.training


class PeeksPastL(Peeks):
    def when(self, at):
        return at.layer == 0 and at.announced_length > self.setup.train_tokens


class PeeksOnceTrained(Cheat):
    """The leak has a weight that starts at zero."""

    def __init__(self, setup):
        super().__init__(setup)
        self.gate = nn.Parameter(torch.zeros(()))

    def embed(self, x, at):
        return x + self.gate * x.roll(-1, 1)


class ScalesByTheTensor(Cheat):
    def rotate(self, q, k, at):
        return q * q.shape[2] ** 0.5, k


class AveragesTheBatch(Cheat):
    def embed(self, x, at):
        return x - x.mean(0, keepdim=True) if at.layer == 0 else x


# --- state


class KeepsAnAverage(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        self.mean = torch.zeros(())

    def embed(self, x, at):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean()
        return x + self.mean


class DependsOnAnAddress(Cheat):
    def embed(self, x, at):
        return x * (1 + id(self) % 1000 / 1000)


class DrawsElsewhere(Cheat, random=True):
    def embed(self, x, at):
        return x + 0.1 * torch.rand(())


class DrawsUndeclared(Cheat):
    def embed(self, x, at):
        return x + 0.1 * torch.rand((), generator=at.generator)


class DrawsNothing(Cheat, random=True):
    pass


class HidesATable(Cheat, shift_invariant=False):
    float_ids = False

    def __init__(self, setup):
        super().__init__(setup)
        self.table = torch.randn(2 * setup.longest_tokens, setup.width)

    def embed(self, x, at):
        return x + self.table[at.positions]


# --- numbers


class Overflows(Cheat):
    def attend(self, q, k, v, bias, at):
        return super().attend(q, k, v, bias, at) / v.mean().exp().exp().clamp(max=0)


class RoundsPositions(Cheat, shift_invariant=False):
    def rotate(self, q, k, at):
        return q * (100 * at.positions.to(q.dtype)).sin()[..., :, None], k


class RoundsAngles(Cheat, shift_invariant=False):
    def prepare(self, at):
        return (at.positions[..., None].float() @ torch.full((1, 1), 100.0)).sin()  # autocast rounds products

    def rotate(self, q, k, at):
        return q * at.shared.to(q.dtype), k


class HasAnUnusedParameter(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        self.unused = nn.Parameter(torch.zeros(3))


class KeepsParametersInAList(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        self.rates = [nn.Parameter(torch.ones(()))]


class ForgetsTheDevice(Cheat):
    def prepare(self, at):
        return -torch.arange(at.positions.shape[-1]).float()

    def bias(self, q, k, at):
        return at.shared * q.new_zeros(q.shape[-2]).exp()


class ReturnsFromTheCPU(Cheat):
    def bias(self, q, k, at):
        return torch.zeros(q.shape[-2])


class NeedsNumbers(Cheat):
    def bias(self, q, k, at):
        return q.new_full((), 0.0 * float(q.detach().mean()))


# --- the sandbox


class Hangs(Cheat):
    def positions(self, tokens, at):
        while True:
            pass


class Hoards(Cheat):
    def positions(self, tokens, at):
        hoard = []
        while True:
            hoard.append(torch.ones(2**24))


class Dies(Cheat):
    def positions(self, tokens, at):
        os.abort()


# --- in a sealed run


class Remembers(Cheat):
    """Raises an error if it is tested in the process that has trained, or has been tested at another length."""

    seen = set[object]()

    def attend(self, q, k, v, bias, at):
        if len(q) > 2:  # a batch of the judge's
            Remembers.seen.add(at.announced_length if not self.training else "training")
            if not self.training and len(Remembers.seen) > 1:
                raise RuntimeError(f"remembers {Remembers.seen}")
        return super().attend(q, k, v, bias, at)


class PeeksInBatches(Cheat):
    """Looks like an encoding that needs positions only, until it is given a batch."""

    def embed(self, x, at):
        return x + 0.5 * x.roll(-1, 1) if at.layer == 0 and len(x) > 2 else x
