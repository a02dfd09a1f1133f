"""What my_encoding does, in a sentence.

`lprime check my_encoding.py` says whether it is an encoding, `lprime run small --encoding my_encoding.py` how far it carries.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bench.encodings import At, Encoding, Info, distances


class MyEncoding(Encoding):
    """s_ij − m_h·ln(1 + i − j): far keys fade by the logarithm of their distance, at a rate that each head learns."""

    info = Info(
        name="my_encoding",
        family="bias",
        title="My encoding",
        authors="Your Name",
        year=2026,
        link="https://example.org",
        formula="s_ij = q_i·k_j/√d − m_h·ln(1 + i − j), ln m_h learned",
        past="the same curve goes on",
        provenance="our own; written from the template of `lprime new`",
        shift_invariant=True,  # moving all position ids by the same amount changes nothing
        random=False,  # draws nothing from at.generator
        ranking="standard",  # neither trained past L nor aware of what tokens mean
    )

    def __init__(self, setup, *, rate: float = 1.0):
        # Settings are keyword arguments with defaults: `my_encoding.py(rate=0.5)`. Sizes and lengths are in `setup`.
        super().__init__(setup)
        self.log_rates = nn.Parameter(torch.full((setup.heads, 1, 1), rate).log())

    # The hooks, in the order in which data meets them; those left out do nothing. Their rules are in bench/encodings/base.py.
    #
    # def positions(self, tokens, at):      position ids [T] or [B, T], once a pass; by default 0 … T − 1

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        """What hangs on position ids alone, once a pass; the other hooks find it in `at.shared`."""
        distance = distances(at.positions).clamp(min=0).float().unsqueeze(-3)  # [*B, 1, T, T]; later keys are hidden anyway
        return -self.log_rates.exp() * distance.log1p()  # the line to change first: what is added to a score, by distance

    # def embed(self, x, at):               x [B, T, D] at the entry of layer at.layer, what is added stays
    # def rotate(self, q, k, at):           queries and keys [B, H, T, d]; both are returned

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        """Added to q·k/√d; finite, since the model adds the causal mask by itself."""
        return at.shared

    # def attend(self, q, k, v, bias, at):  the whole attention [B, H, T, d], where nothing else will do
