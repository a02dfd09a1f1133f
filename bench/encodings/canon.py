"""A causal convolution of the residual stream over four tokens, in front of every layer."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .base import At, Wrapper
from .bibliography import published

ENTRIES = ("canon(nope)", "canon(rope)")
TAPS = 4


class Canon(Wrapper):
    """x_t ← x_t + Σ_m w_m·x_{t−m}, m = 0 … 3, with w learned for each channel and layer."""

    info = published("canon")

    def __init__(self, setup):
        super().__init__(setup)
        self.taps = nn.Parameter((2 * torch.rand(setup.layers, TAPS, setup.width) - 1) / TAPS**0.5)

    def embed(self, x: Tensor, at: At) -> Float[Tensor, "B T D"]:
        x = super().embed(x, at)
        padded, taps = F.pad(x, (0, 0, TAPS - 1, 0)), self.taps[at.layer].to(x.dtype)
        return x + sum(taps[m] * padded[:, TAPS - 1 - m : padded.shape[1] - m] for m in range(TAPS))
