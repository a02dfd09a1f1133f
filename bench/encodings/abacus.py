"""Learned embeddings of a digit's place within its number."""

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from .base import At
from .bibliography import published
from .learned import Learned


class Abacus(Learned):
    """x_p = tok_p + W[id]; id is the 1-based place of a digit in its run of digits, 0 for other tokens. Otherwise NoPE.

    If digits are written least significant first, equal ids mean equal significance; otherwise ids count from the left. In
    training, one random offset per call is added to the ids of all digits. In a task without digits, all ids are 0.
    """

    info = published("abacus")
    digits: Tensor

    def __init__(self, setup, *, offset: int = 99):
        super().__init__(replace(setup, longest_tokens=setup.longest_tokens + offset + 1), init_std=1.0)
        self.offset = offset
        self.register_buffer("digits", torch.tensor([role == "digit" for role in setup.roles]), persistent=False)

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Int[Tensor, "B T"]:
        digit = self.digits[tokens]
        place = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        ids = place - place.where(~digit, 0).cummax(1).values  # tokens since the last non-digit
        if self.training:
            ids = ids + digit * torch.randint(self.offset + 1, (), generator=at.generator, device=tokens.device)
        return ids
