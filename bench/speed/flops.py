"""The machine's own limit: how much arithmetic a step is, and how fast this machine multiplies matrices of its shapes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from bench.suite import ModelSpec

ENOUGH = 10**8
"""FLOPs of one turn, so that a clock can tell: small products are repeated."""


def step_flops(spec: ModelSpec, symbols: int, sizes: Sequence[int], answers: int, last_rows: int | None = None) -> int:
    """Multiplications and additions of forward and backward, which is twice the forward: matrix products alone.

    Arguments:
        sizes: tokens of each example, without padding.
        answers: places at which the head is needed.
        last_rows: rows that go on after attention in the last layer; all by default.
    """
    rows, width = sum(sizes), spec.width
    qkv, after = 2 * 3 * width**2, 2 * (width**2 + 2 * width * spec.mlp_width)
    attention = sum(2 * 2 * size**2 * width for size in sizes)  # q·k and weights·v, over all heads, later keys included
    forward = spec.layers * (rows * qkv + attention) + (spec.layers - 1) * rows * after
    forward += (rows if last_rows is None else last_rows) * after + answers * 2 * width * symbols
    return 3 * forward


@dataclass
class Product:
    """One matrix product of a step, in the memory layout in which the step meets it."""

    a: Float[Tensor, "m k"]
    b: Float[Tensor, "k n"]
    count: int
    """How often a step has it."""
    out: Float[Tensor, "m n"] = field(init=False)

    def __post_init__(self) -> None:
        self.out = self.a.new_empty(self.a.shape[0], self.b.shape[1])

    @property
    def name(self) -> str:
        return f"{self.a.shape[0]}×{self.a.shape[1]} · {self.b.shape[0]}×{self.b.shape[1]}"

    @property
    def flops(self) -> int:
        return 2 * self.a.shape[0] * self.a.shape[1] * self.b.shape[1]

    @property
    def repeats(self) -> int:
        return max(1, ENOUGH // self.flops)

    def run(self, given: object = None) -> None:
        for _ in range(self.repeats):
            torch.mm(self.a, self.b, out=self.out)

    def rate(self, seconds: float) -> float:
        """GFLOP/s, where ``run`` took so long."""
        return self.flops * self.repeats / seconds / 1e9


def products(spec: ModelSpec, symbols: int, rows: int, answers: int) -> list[Product]:
    """The products of every linear map: forward, and the gradients of its input and of its weights."""
    d, f = spec.width, spec.mlp_width
    maps = [(rows, d, 3 * d, spec.layers), (rows, d, d, spec.layers), (rows, d, f, spec.layers), (rows, f, d, spec.layers)]
    found = []
    for n, inputs, outputs, count in [*maps, (answers, d, symbols, 1)]:
        x, weight, gradient = torch.randn(n, inputs), torch.randn(outputs, inputs), torch.randn(n, outputs)
        found += [Product(x, weight.T, count), Product(gradient, weight, count), Product(gradient.T, x, count)]
    return found
