"""Cheats for the checks declaration, interface, devices, positions, numbers, gradients, cost and learning."""

import torch
from cheat_base import Cheat, add_marks
from torch import nn

from bench.encodings import Stage, distances

# --- declaration, interface, devices, positions


class DeclaresNothing(Cheat, title="", link="example.org", year=1066):
    pass


class HasPositionalSettings(Cheat):
    def __init__(self, setup, base=3.0):
        super().__init__(setup)


class HasAStage(Cheat):
    stage = Stage()


class LearnsInItsStage(Cheat, ranking="longer", shift_invariant=True):
    """No cheat: a parameter is used only after the stage has begun."""

    stage = Stage()

    def __init__(self, setup):
        super().__init__(setup)
        self.rate = nn.Parameter(torch.ones(()))

    def bias(self, q, k, at):
        return -self.rate * at.distances.clamp(min=0).float() if at.after_stage else None


class GivesInfinity(Cheat):
    def bias(self, q, k, at):
        return distances(at.positions).float().clamp(max=0).exp().log2().where(distances(at.positions) >= 0, float("-inf"))


class GivesAnotherShape(Cheat):
    def bias(self, q, k, at):
        return q.new_zeros(q.shape[1], q.shape[2] + 1)


class ForgetsTheDevice(Cheat):
    def prepare(self, at):
        return -torch.arange(at.positions.shape[-1]).float()

    def bias(self, q, k, at):
        return at.shared * q.new_zeros(q.shape[-2]).exp()


class ReturnsFromTheCPU(Cheat):
    def bias(self, q, k, at):
        return torch.zeros(q.shape[-2])


class ComputesInNumpy(Cheat):
    def bias(self, q, k, at):
        return torch.as_tensor(q.detach().numpy()[..., :1] * 0)


class DeclaresShifts(Cheat):
    def embed(self, x, at):
        return add_marks(x, at.positions.to(x).sin())


class DeclaresNoShifts(Cheat, shift_invariant=False):
    pass


class DeclaresFractions(Cheat, shift_invariant=False):
    def __init__(self, setup):
        super().__init__(setup)
        self.table = nn.Parameter(torch.randn(setup.longest_tokens, setup.width))

    def embed(self, x, at):
        return x + self.table[at.positions]


# --- numbers, gradients, cost, learning


class Overflows(Cheat, shift_invariant=False):
    def embed(self, x, at):
        past = (at.positions.float() - self.setup.train_tokens).clamp(min=0)
        return x * (50 * past).exp()[..., None]


class RoundsPositions(Cheat, shift_invariant=False):
    def rotate(self, q, k, at):
        return q * (100 * at.positions.to(q.dtype)).sin()[..., :, None], k


class HasAnUnusedParameter(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        self.unused = nn.Parameter(torch.zeros(3))


class HasTooManyParameters(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        self.many = nn.Parameter(torch.zeros(1_000_000))

    def embed(self, x, at):
        return x + self.many.sum()


class IgnoresItsInput(Cheat):
    def attend(self, q, k, v, bias, at):
        return 0 * v
