"""Honest encodings, written in ways that a check could mistake for faults."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import gammaln
from torch import nn

from bench.encodings import Encoding, Info

HONEST = Info(
    name="honest",
    family="bias",
    title="A title",
    authors="Somebody",
    year=2026,
    link="https://example.org/honest",
    formula="s_ij = q_i·k_j/√d − f(i − j)",
    past="the same curve",
    provenance="made for tests",
    shift_invariant=True,
)
CURVES = {"root": lambda r: (1 + r).sqrt() - 1}


@dataclass(frozen=True)
class Slopes:
    base: float = 2.0

    def of(self, heads: int) -> list[float]:
        return [self.base ** -(n + 1) for n in range(heads)]


@torch.compile
def compiled_curve(distance, slopes):
    return -slopes[:, None, None] * CURVES["root"](distance.clamp(min=0).float())


class Compiled(Encoding):
    """A compiled function of lambdas, constants of a dataclass that are made in every call, a frozen parameter."""

    info = replace(HONEST, name="compiled")

    def __init__(self, setup, *, base: float = 2.0):
        super().__init__(setup)
        self.slopes = Slopes(base)
        self.scale = nn.Parameter(torch.ones(()), requires_grad=False)

    def bias(self, q, k, at):
        slopes = torch.tensor(self.slopes.of(self.setup.heads), device=q.device)
        return self.scale * compiled_curve(at.distances.unsqueeze(-3), slopes)


class Clip(torch.autograd.Function):
    """A bound that still has a gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(-8, 8)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * torch.where(x.abs() <= 8, 1.0, 0.1).to(gradient)


class Attends(Encoding):
    """A module of torch with an attention of its own over rows of a table, and an own gradient."""

    info = replace(HONEST, name="attends", shift_invariant=False)
    float_ids = False

    def __init__(self, setup):
        super().__init__(setup)
        self.table = nn.Embedding(setup.longest_tokens, setup.width)
        self.mix = nn.MultiheadAttention(setup.width, setup.heads, batch_first=True, bias=False)

    def embed(self, x, at):
        rows = self.table(at.positions).expand_as(x)
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return x if at.layer else x + Clip.apply(self.mix(rows, rows, rows, attn_mask=later, need_weights=False)[0])


class Tables(Encoding):
    """Rotations by einsum, a curve of scipy over numpy's numbers, a buffer that is not stored."""

    info = replace(HONEST, name="tables")

    def __init__(self, setup):
        super().__init__(setup)
        r = np.arange(setup.longest_tokens, dtype=np.float64)
        curve = torch.from_numpy(gammaln(r + 1.5) - gammaln(r + 1)).float()
        self.register_buffer("curve", curve, persistent=False)
        self.rates = nn.ParameterDict({"rate": nn.Parameter(torch.full((setup.heads, 1, 1), 0.3))})

    def prepare(self, at):
        d = self.setup.head_width
        frequencies = 10_000.0 ** (-torch.arange(0, d, 2, device=at.positions.device) / d)
        angles = torch.einsum("...t,f->...tf", at.positions.float(), frequencies)
        cos, sin = angles.cos(), angles.sin()
        return torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)

    def rotate(self, q, k, at):
        def turn(x):
            return torch.einsum("bhtfe,...tfde->bhtfd", x.unflatten(-1, (-1, 2)), at.shared.to(x.dtype)).flatten(-2)

        return turn(q), turn(k)

    def bias(self, q, k, at):
        return -self.rates["rate"] * self.curve[at.distances.clamp(min=0)].unsqueeze(-3)
