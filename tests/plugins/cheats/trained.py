"""Cheats that behave while hooks are checked: the judge sees them in a run."""

import itertools

import torch
from cheat_base import Cheat, add_marks
from torch import nn

from bench.encodings import Stage

MANY = 79
"""Rows of real batches of evaluation; batches of the other checks have fewer."""


class Peeks(Cheat):
    """Adds the next token's embedding if ``when`` returns True."""

    def when(self, x, at):
        return False

    def embed(self, x, at):
        return x + 0.5 * x.roll(-1, 1) if at.layer == 0 and self.when(x, at) else x


class PeeksOnRealBatches(Peeks):
    def when(self, x, at):
        return len(x) >= MANY


class PeeksInLaterRows(Cheat):
    def embed(self, x, at):
        moved = x.clone()
        moved[MANY:, :-1] += x[MANY:, 1:]
        return moved


class PeeksAfterManyCalls(Peeks):
    def __init__(self, setup):
        super().__init__(setup)
        self.call = itertools.count().__next__

    def when(self, x, at):
        return self.call() > 30


class PeeksWithTrainedWeights(Peeks):
    """The leak opens when the weight has moved from where the other checks leave it."""

    def __init__(self, setup):
        super().__init__(setup)
        self.scale = nn.Parameter(torch.ones(()))
        self.before = 1.0

    def embed(self, x, at):
        return super().embed(x * self.scale, at)

    def when(self, x, at):
        return len(x) > 64 and float(self.scale) != self.before


class PeeksAtTheEndOfAnswers(Cheat):
    """At one place of one length, in batches of some rows."""

    def embed(self, x, at):
        if x.shape[1] == 11 and len(x) > 64:
            return torch.cat([x[:, :6], x[:, 6:7] + x[:, 7:8], x[:, 7:]], 1)
        return x


class LearnsFromTests(Cheat):
    """What it has seen of answers stays in a buffer, and moves what follows."""

    def __init__(self, setup):
        super().__init__(setup)
        self.register_buffer("seen", torch.zeros(setup.width), persistent=False)

    def embed(self, x, at):
        if len(x) > 64:
            self.seen += 0.1 * x.detach().mean((0, 1))
        return x + self.seen


class LearnsInSecret(Cheat):
    """A table that it trains itself, outside of the parameters."""

    def __init__(self, setup):
        super().__init__(setup)
        self.table = torch.zeros(setup.width)

    def embed(self, x, at):
        if self.training:
            self.table = 0.9 * self.table + 0.1 * x.detach().mean((0, 1))
        return x + self.table


class Flip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class GivesOtherGradients(Cheat):
    def embed(self, x, at):
        return Flip.apply(x) if at.layer == 0 else x


class TrainsOnOtherSequences(Cheat):
    """In training, sequences are reversed."""

    def embed(self, x, at):
        return x.flip(1) if self.training and at.layer == 0 else x


class TrainsItsStageOnOtherSequences(Cheat):
    """Of training, only the stage: two of forty steps, both of which are audited."""

    stage = Stage(share=0.05, longer=False)

    def embed(self, x, at):
        return x.flip(1) if self.training and at.after_stage and at.layer == 0 else x


class TrainsWithMarks(Cheat):
    def embed(self, x, at):
        return add_marks(x, torch.arange(x.shape[1]) % 2) if self.training else x
