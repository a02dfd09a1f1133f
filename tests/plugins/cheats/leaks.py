"""Cheats for the checks causality, cutting and batches."""

import torch
from cheat_base import Cheat
from torch import nn


class PeeksThroughTheBias(Cheat):
    def bias(self, q, k, at):
        return at.h.roll(-1, 1)[:, None, :, : k.shape[-1]] @ k.mT


class Peeks(Cheat):
    """Adds the next token's embedding if ``when`` returns True."""

    def when(self, x, at):
        return at.layer == 0

    def embed(self, x, at):
        return x + 0.5 * x.roll(-1, 1) if self.when(x, at) else x


class PeeksThroughTheEmbedding(Peeks):
    pass


class PeeksInEvaluation(Peeks):
    def when(self, x, at):
        return at.layer == 0 and not self.training


class PeeksInInference(Peeks):
    def when(self, x, at):
        return at.layer == 0 and torch.is_inference_mode_enabled()


class PeeksUnderAutocast(Peeks):
    def when(self, x, at):
        return at.layer == 0 and torch.is_autocast_enabled("cpu")


class PeeksPastL(Peeks):
    def when(self, x, at):
        return at.layer == 0 and at.announced_length > self.setup.train_tokens


class PeeksInLongSequences(Peeks):
    def when(self, x, at):
        return at.layer == 0 and x.shape[1] > self.setup.train_tokens


class PeeksAtOneLength(Peeks):
    def when(self, x, at):
        return at.layer == 0 and x.shape[1] == self.setup.train_tokens + 3


class PeeksAtOnePosition(Cheat):
    def embed(self, x, at):
        moved = x.clone()
        if x.shape[1] > 6:
            moved[:, 5] = moved[:, 5] + x[:, 6]
        return moved


class PeeksInTheLastLayer(Cheat):
    def rotate(self, q, k, at):
        return (q.roll(-1, 2), k) if at.layer == self.setup.layers - 1 else (q, k)


class PeeksInAFourthLayer(Cheat):
    def attend(self, q, k, v, bias, at):
        return super().attend(q, k, v.roll(-1, 2) if at.layer == 3 else v, bias, at)


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
