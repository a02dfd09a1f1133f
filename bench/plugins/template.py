"""my_encoding: one sentence on what it does.

lprime check my_encoding.py                     tests that it is a valid encoding, in under a minute
lprime run small --encoding my_encoding.py      trains it and measures how far it generalises
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bench.encodings import At, Encoding, Info


class MyEncoding(Encoding):
    """s_ij − m_h·ln(1 + i − j): scores decay with the logarithm of the distance, at a rate learned per head."""

    info = Info(
        name="my_encoding",
        family="bias",
        title="My encoding",
        authors="Your Name",
        year=2026,
        link="https://example.org",
        formula="s_ij = q_i·k_j/√d − m_h·ln(1 + i − j), ln m_h learned",
        gloss="a penalty that grows with log distance",  # the idea in at most eight words
        past="the same curve continues",  # behaviour beyond the training length
        provenance="our own; written from the template of `lprime new`",  # source of formula and defaults
        source="own variant",  # of another's method: the code it was compared with ("official code", "port"), or "paper only"
        lengths="",  # settings that are lengths in tokens, with their rule, such as "k = 16, as published" or "k = L/2, scaled"
        shift_invariant=True,  # adding a constant to all position ids changes nothing
        random=False,  # draws nothing from at.generator
        ranking="standard",  # or "longer" (trains past L), or "task-aware" (uses what the tokens mean)
    )

    def __init__(self, setup, *, rate: float = 1.0):
        # Settings are keyword arguments with defaults; users set them as `my_encoding.py(rate=0.5)`. `setup` holds the sizes.
        super().__init__(setup)
        self.log_rates = nn.Parameter(torch.full((setup.heads, 1, 1), rate).log())

    # All hooks follow, in call order; the ones in comments keep their default. bench/encodings/base.py has the rules.
    # Shapes: B sequences, T tokens, D model width, H heads, d head width.
    #
    # def positions(self, tokens, at):      return position ids [T] or [B, T]; by default 0 … T − 1

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        """Compute what depends only on position ids, once per forward pass; the other hooks read it as `at.shared`."""
        distance = at.distances.clamp(min=0).float().unsqueeze(-3)  # i − j [*B, 1, T, T]; 0 for later keys
        return -self.log_rates.exp() * distance.log1p()  # the line to change first: the bias as a function of distance

    # def embed(self, x, at):               return x [B, T, D], the residual stream at the input of layer at.layer
    # def rotate(self, q, k, at):           return q, k [B, H, T, d]

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        """Return what is added to q·k/√d. It must be finite: the causal mask is added later."""
        return at.shared

    # def attend(self, q, k, v, bias, at):  return [B, H, T, d]; the whole attention, if the other hooks are not enough
    # def advance(self, q, k, bias, mlp, at):  return anything; the next layer reads it as `at.state`
