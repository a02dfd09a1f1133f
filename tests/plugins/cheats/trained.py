"""Cheats that behave while hooks are checked: the judge sees them in a sealed run."""

import torch
from cheat_base import Cheat
from torch import nn

from bench.encodings import Stage

MANY = 79
"""Rows of real batches of evaluation; batches of the checks have fewer."""


class PeeksOnRealBatches(Cheat):
    def embed(self, x, at):
        return x + 0.5 * x.roll(-1, 1) if at.layer == 0 and len(x) >= MANY else x


class PeeksWithTrainedWeights(Cheat):
    """The leak opens when the weight has moved from where the checks leave it."""

    def __init__(self, setup):
        super().__init__(setup)
        self.scale = nn.Parameter(torch.ones(()))

    def embed(self, x, at):
        peeks = at.layer == 0 and len(x) > 64 and float(self.scale) != 1
        return x * self.scale + 0.5 * x.roll(-1, 1) * peeks


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
