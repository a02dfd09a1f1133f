"""The last tokens first."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bench.encodings import At, Encoding, Info, distances

from .curve import recency


class Recency(Encoding):
    """s_ij + g_h·r/(r + i − j), g_h learned: every head says how much it favours what is near."""

    info = Info(
        name="recency",
        family="bias",
        title="An example of a plugin",
        authors="The lprime authors",
        year=2026,
        link="https://example.org/recency",
        formula="s_ij = q_i·k_j/√d + g_h·r/(r + i − j), r = 4",
        past="goes on to fall, towards 0",
        provenance="made up as an example",
        shift_invariant=True,
    )

    def __init__(self, setup, *, reach: float = 4.0):
        super().__init__(setup)
        self.reach = reach
        self.gain = nn.Parameter(torch.ones(setup.heads, 1, 1))

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        return self.gain * recency(distances(at.positions).clamp(min=0).float().unsqueeze(-3), self.reach)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        return at.shared
