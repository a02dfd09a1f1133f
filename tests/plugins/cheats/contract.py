"""Cheats for the checks tokens, surroundings and mutation, and for learning those that change weights."""

import gc
import os
import socket
import sys
from pathlib import Path

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


class UsesSymbols(Cheat):
    def embed(self, x, at):
        return x * (2 if "+" in self.setup.symbols else 1)


class DeclaresTaskAware(SolvesParity, shift_invariant=False, ranking="task-aware"):
    """Passes."""


# --- surroundings


class ReadsTheEnvironment(Cheat):
    def bias(self, q, k, at):
        return q.new_full((), float(os.environ.get("CHEAT", "0")))


class ReadsAFile(Cheat):
    def prepare(self, at):
        return len(Path("/etc/hostname").read_text()) if Path("/etc/hostname").exists() else os.listdir(".")


class ReadsWhenMade(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        self.size = len(Path(__file__).with_suffix(".txt").parent.name + str(list(Path(__file__).parent.iterdir())))


class CallsTheNetwork(Cheat):
    def rotate(self, q, k, at):
        socket.socket().close()
        return q, k


class ReadsFrames(Cheat):
    def rotate(self, q, k, at):
        return q, k * (1.0 if sys._getframe(1).f_locals else 2.0)


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


class ChangesTheModel(Cheat):
    def embed(self, x, at):
        model = next(o for o in gc.get_referrers(self) if isinstance(o, dict) and o.get("encoding") is self)
        model["embedding" if "embedding" in model else "head"].weight.data[0] += 0.01
        return x


class ChangesTheOptimizer(Cheat):
    def embed(self, x, at):
        frame = sys._getframe()
        while frame is not None:
            if "optimizer" in frame.f_locals:
                for group in frame.f_locals["optimizer"].param_groups:
                    group["betas"] = (0.5, 0.5)
            frame = frame.f_back
        return x


class ReplacesTheHarness(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        import bench.training.evaluate

        bench.training.evaluate.score_targets = lambda *_: torch.ones(1, dtype=torch.bool)
