"""Learned embeddings of a digit's place within its number."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .base import At, Encoding
from .bibliography import published


class Abacus(Encoding):
    """x_p = tok_p + W[id]; id is the 1-based place of a digit in its run of digits, 0 for other tokens. Otherwise NoPE.

    If digits are written least significant first, equal ids mean equal significance; otherwise ids count from the left. In
    training, one random offset per call is added to the ids of all digits. In a task without digits, all ids are 0.
    """

    info = published("abacus")
    float_ids = False

    digits: Tensor

    def __init__(self, setup, *, offset: int = 99):
        super().__init__(setup)
        self.offset = offset
        self.table = nn.Parameter(torch.randn(setup.longest_tokens + offset + 1, setup.width))
        self.register_buffer("digits", torch.tensor([role == "digit" for role in setup.roles]), persistent=False)

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Int[Tensor, "B T"]:
        digit = self.digits[tokens]
        place = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
        ids = place - place.where(~digit, 0).cummax(1).values  # tokens since the last non-digit
        if self.training:
            ids = ids + digit * torch.randint(self.offset + 1, (), generator=at.generator, device=tokens.device)
        return ids

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        return x + self.table[at.positions] if at.layer == 0 else x
