"""Coupled positions: digits of equal significance in both operands and in the sum share one position id."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from .base import At, Encoding, Info


class PositionCoupling(Encoding):
    """x_p = tok_p + W[id]; ``+``, ``<sep>`` and ``=`` have id s, the t-th digit after one of them or after ``<bos>`` has s + t.

    If numbers are written least significant digit first, this couples equal significance; otherwise places from the left. A
    carry has the id of its digit; ``<bos>``, ``<eos>`` and ``<pad>`` have 0. In evaluation s = 1; training draws one s per
    forward pass from 1 … S, with S large enough that the longest test uses only trained ids.

    A task without ``+`` has nothing to couple: its ids are s, s + 1, …; 1, 2, … in evaluation.
    """

    info = Info(
        name="position_coupling",
        family="task-aware",
        title="Position Coupling: Improving Length Generalization of Arithmetic Transformers Using Task Structure",
        authors="Cho, Cha, Awasthi, Bhojanapalli, Gupta, Yun",
        year=2024,
        link="https://arxiv.org/abs/2405.20671",
        formula="x_p = tok_p + W[id_p], id_p = s at + and <sep>, s + t at the digit of significance t (s ~ U{1…S} in training)",
        past="every id used in a test is trained",
        provenance="the authors' code, HanseulJo/position-coupling, with its initialisation N(0, 1); there, ids fall with "
        "significance and operands start with the most significant digit; the ids of carries are our choice",
        random=True,
        ranking="task-aware",
    )
    float_ids = False

    kinds: Tensor

    def __init__(self, setup, *, init_std: float = 1.0):
        super().__init__(setup)
        self.coupled = "+" in setup.symbols
        self.starts = 1 + self.largest_offset(setup.longest_tokens) - self.largest_offset(setup.train_tokens)
        # Enough rows for any generated text: a number may fill the whole sequence.
        self.table = nn.Parameter(torch.randn(1 + self.starts + setup.longest_tokens, setup.width) * init_std)
        kinds = [token_kind(symbol, role) for symbol, role in zip(setup.symbols, setup.roles, strict=True)]
        self.register_buffer("kinds", torch.tensor(kinds).T, persistent=False)

    def largest_offset(self, tokens: int) -> int:
        """The largest id − s. In task ``addition``, a sequence of 3·L + 5 tokens has a sum of L + 1 digits."""
        return (tokens - 2) // 3 if self.coupled else tokens - 1

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Int[Tensor, "*B T"]:
        s = torch.randint(self.starts, (), generator=at.generator, device=tokens.device) + 1 if self.training else 1
        if not self.coupled:
            return torch.arange(tokens.shape[1], device=tokens.device) + s
        separates, counts, outside = self.kinds[:, tokens]
        counted = counts.cumsum(1)
        t = counted - counted.where(separates, 0).cummax(1).values  # digits since the last separator
        return (s + t).where(~outside, 0)

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        return x + self.table[at.positions] if at.layer == 0 else x


def token_kind(symbol: str, role: str) -> tuple[bool, bool, bool]:
    """Whether a symbol separates numbers, whether it counts as a digit, and whether it is outside all numbers."""
    outside = symbol in ("<bos>", "<eos>", "<pad>")
    return outside or symbol == "<sep>" or role == "operator", role == "digit", outside
