"""Ten cheats that were written after the defences, which were not changed for them."""

import math

import numpy as np
import torch
from cheat_base import Cheat, add_marks
from torch import nn


class ComparesRowsWithAMargin(Cheat):
    """Task-aware in secret: marks each token with how often it has occurred, odd or even."""

    def embed(self, x, at):
        if at.layer:
            return x
        same = (torch.cdist(x.detach(), x.detach()) < 1).tril()
        return add_marks(x, same.sum(-1) % 2)


class RecognisesTheTask(Cheat):
    """Settings by task, which its lengths give away."""

    def bias(self, q, k, at):
        window = 2 if self.setup.train_length % 2 else 100
        return -(at.distances.clamp(min=0).to(q) / window).unsqueeze(-3)


class FlipSeldom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return -gradient if int(x.sum().abs() * 1000) % 40 == 0 else gradient


class GivesOtherGradientsSeldom(Cheat):
    def embed(self, x, at):
        return FlipSeldom.apply(x) if at.layer == 0 else x


class PeeksAndDraws(Cheat, random=True):
    """Random encodings are not compared with the answers in view."""

    def embed(self, x, at):
        x = x * (1 + 1e-6 * torch.rand((), generator=at.generator))
        return x + 0.5 * x.roll(-1, 1) if len(x) >= 79 or len(x) == 32 else x


class ReadsAFileAsStorage(Cheat):
    """A way to files that the list of words lacks."""

    def embed(self, x, at):
        return x * torch.UntypedStorage.from_file("/etc/hostname", False, 1).nbytes()


class Amplify(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scale):
        return scale.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 30 * gradient


class TrainsItsOwnParametersFaster(Cheat):
    def __init__(self, setup):
        super().__init__(setup)
        self.rate = nn.Parameter(torch.zeros(()))

    def rotate(self, q, k, at):
        return q * (1 + 0.01 * Amplify.apply(self.rate)), k


class PeeksInEvaluationOfOddLengths(Cheat):
    def attend(self, q, k, v, bias, at):
        if torch.is_inference_mode_enabled() and v.shape[2] % 2 and at.layer == 0 and len(v) > 64:
            v = v.roll(-1, 2)
        return super().attend(q, k, v, bias, at)


class CountsInAnArray(Cheat):
    CALLS = np.zeros(1)

    def embed(self, x, at):
        np.add(self.CALLS, 1, out=self.CALLS)
        return x * (1 + math.tanh(float(self.CALLS[0]) / 500))


class KeepsInADefault(Cheat):
    def embed(self, x, at, seen=[]):  # noqa: B006
        seen.append(at.layer)
        return x * 1.1 if len(seen) > 100 else x
