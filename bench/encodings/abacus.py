"""Digits numbered within their number."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .base import At, Encoding, Info


class Abacus(Encoding):
    """x_p = tok_p + W[id], id the place of a digit in its run of digits, from 1; 0 for everything else. Otherwise NoPE.

    With digits written least significant first, equal ids mean equal significance; written the other way, just places from the
    left. Training adds one random offset a forward pass to the ids of all digits. Without digits in a task, all ids are 0.
    """

    info = Info(
        name="abacus",
        family="task-aware",
        title="Transformers Can Do Arithmetic with the Right Embeddings",
        authors="McLeish, Bansal, Stein, Jain, Kirchenbauer, Bartoldson, Kailkhura, Bhatele, Geiping, Schwarzschild, Goldstein",
        year=2024,
        link="https://arxiv.org/abs/2405.17399",
        formula="x_p = tok_p + W[id_p], id_p = place in the run of digits (+ U{0…99} in training), 0 if no digit",
        past="rows up to the train length plus 99 are trained; later ones keep their random start",
        provenance="the authors' code, mcleish7/arithmetic, abacus.py; start N(0, 1) as there",
        random=True,
        ranking="task-aware",
    )
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
        ids = place - place.where(~digit, 0).cummax(1).values  # tokens since the last one that is no digit
        if self.training:
            ids = ids + digit * torch.randint(self.offset + 1, (), generator=at.generator, device=tokens.device)
        return ids

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        return x + self.table[at.positions] if at.layer == 0 else x
