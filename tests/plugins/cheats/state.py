"""Cheats for the checks memory, determinism, randomness and state dict."""

import cheat_store
import torch
from cheat_base import Cheat

# --- memory


class KeepsAnAverage(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        self.mean = torch.zeros(())

    def embed(self, x, at):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean()
        return x + self.mean


SEEN: list[float] = []


class KeepsInAGlobal(Cheat):
    def embed(self, x, at):
        SEEN.append(float(x.detach().mean()))
        return x + 0.01 * len(SEEN)


class KeepsInAnotherModule(Cheat):
    def embed(self, x, at):
        cheat_store.keep(float(x.detach().mean()))
        return x + sum(cheat_store.KEPT)


# --- determinism, randomness, state dict


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
