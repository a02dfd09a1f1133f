"""Coupled positions: tokens with the same part in a task share one position id."""

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from .base import At, Setup
from .bibliography import published
from .learned import Learned

OUTSIDE = ("<bos>", "<eos>", "<pad>")
COUNTED = ("digit", "symbol", "bit")
"""Roles of the tokens that are coupled, in addition, copying and parity."""


class PositionCoupling(Learned):
    """x_p = tok_p + W[id]. Training draws a start s for each sequence; in evaluation s = 1.

    - Addition: ``+``, ``<sep>`` and ``=`` have id s, the t-th digit of a number s + t, a carry that of its digit. If numbers
      are written least significant digit first, this couples equal significance; otherwise places from the left.
    - Copying, and parity with scratchpad: ``<sep>`` has s, the t-th token of the prompt and of the answer s + t.
    - Parity without scratchpad: all bits, the answer too, have s, ``<sep>`` has s + 1.
    - Other tasks: nothing is coupled, ids are s + 1, s + 2, …

    ``<bos>``, ``<eos>`` and ``<pad>`` have 0. The starts are 1 … L′ + 2, the largest id of a sum (where nothing is coupled: L′
    in tokens), so that every row a test uses is trained often.
    """

    info = published("position_coupling")
    kinds: Tensor

    def __init__(self, setup, *, init_std: float = 1.0):
        coupled = any(role in COUNTED for role in setup.roles)
        starts = setup.longest_length + 2 if coupled else setup.longest_tokens
        # Enough rows for any generated text: a number may fill the whole sequence.
        super().__init__(replace(setup, longest_tokens=1 + starts + setup.longest_tokens), init_std=init_std)
        self.starts = starts
        kinds = [token_kind(symbol, role, setup) for symbol, role in zip(setup.symbols, setup.roles, strict=True)]
        self.register_buffer("kinds", torch.tensor(kinds).T, persistent=False)

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Int[Tensor, "B T"]:
        s: Tensor | int = 1
        if self.training:
            s = 1 + torch.randint(self.starts, (len(tokens), 1), generator=at.generator, device=tokens.device)
        separates, counts, shift, inside = self.kinds[:, tokens]
        counted = counts.cumsum(1)
        t = counted - (counted * separates).cummax(1).values  # counted tokens since the last separator
        return (s + t + shift) * inside


def token_kind(symbol: str, role: str, setup: Setup) -> tuple[bool, bool, bool, bool]:
    """Whether a symbol separates numbers or texts, is counted within one, has id s + 1 without counting, has an id at all."""
    if symbol in OUTSIDE:
        return True, False, False, False
    if not any(r in COUNTED for r in setup.roles):
        return False, True, False, True
    # Both variants of parity have the same vocabulary; with scratchpad, the answer is as long as the prompt.
    one_bit = "bit" in setup.roles and setup.longest_tokens < 2 * setup.longest_length + 3
    separates = symbol == "<sep>" or role == "operator"
    return separates, role in COUNTED and not one_bit, separates and one_bit, True
