"""A bias adapted to the content by a small network that sees the scores of all heads."""

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .attention import without_autocast
from .base import At, Wrapper
from .bibliography import published
from .dape_kernel import PairNetwork
from .kerple import KerpleLog

ENTRIES = ("dape(alibi)", "dape(kerple_log)", "dape_v2(alibi)", "dape_v2(kerple_log)")


def uniform(*shape: int, inputs: int) -> nn.Parameter:
    """A parameter drawn from U(−1/√inputs, 1/√inputs), as in ``nn.Linear`` and ``nn.Conv2d``."""
    return nn.Parameter((2 * torch.rand(shape) - 1) * inputs**-0.5)


class DAPE(Wrapper):
    """s_ij + b_ij + F([s_ij; b_ij]): F maps the scores and biases of all heads at (i, j) to one more bias per head.

    F is Linear(2H, 32), LeakyReLU, Linear(32, H), one per layer. If the wrapped encoding has no bias, b is 0. A wrapped KERPLE
    has parameters per layer. A wrapped FIRE is `fire`; the authors' has LeakyReLU and a last bias in its own MLP.
    """

    info = published(
        "dape",
        family="contextual",
        formula="s_ij = q_i·k_j/√d + b_ij + F([q_i·k_j/√d; b_ij]), F = Linear(32, H)∘LeakyReLU∘Linear(2H, 32) over heads",
        past="F sees biases outside its training range wherever b leaves it",
        shift_invariant=True,
    )
    kernel: ClassVar[tuple[int, ...]] = ()
    """Neighbouring keys that each map of F sees, as the shape of an axis; none in version 1."""

    def __init__(self, setup, *, hidden: int = 32):
        super().__init__(setup)
        if isinstance(self.base, KerpleLog):
            self.base.draw(setup.layers, setup.heads, 1, 1)
        layers, heads, keys = setup.layers, setup.heads, math.prod(self.kernel)
        fan1, fan2 = 2 * heads * keys, hidden * keys
        self.w1, self.b1 = uniform(layers, hidden, 2 * heads, *self.kernel, inputs=fan1), uniform(layers, hidden, inputs=fan1)
        self.w2, self.b2 = uniform(layers, heads, hidden, *self.kernel, inputs=fan2), uniform(layers, heads, inputs=fan2)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "B H T T"]:
        b, layer, heads, count = self.base.bias(q, k, at), at.layer, self.setup.heads, q.shape[2]
        b = q.new_zeros(1) if b is None else b
        b = b.expand(len(b) if b.ndim == 4 else 1, heads, count, count)
        w1 = self.w1[layer].view(-1, 2 * heads, math.prod(self.kernel))
        w2 = self.w2[layer].view(heads, -1, math.prod(self.kernel))
        inputs = (x.to(q.dtype) for x in (b, w1, self.b1[layer], w2, self.b2[layer]))
        with without_autocast(q):  # the backward pass is written for one dtype
            return PairNetwork.apply(q, k, *inputs, 1 / math.sqrt(self.setup.head_width))


class DAPEv2(DAPE):
    """DAPE with convolutions over three neighbouring keys in place of linear maps, and 0 in place of keys after i.

    The authors' second convolution pads with zeros after the last key of the sequence, so that the score of the last query with
    itself depends on whether the sequence goes on. Here it is computed as if it does.
    """

    info = published(
        "dape_v2",
        like=DAPE.info,
        formula="s_ij = q_i·k_j/√d + b_ij + F([q_i·k_j/√d; b_ij]), F = Conv(32, H)∘LeakyReLU∘Conv(2H, 32) over 3 keys",
        lengths="kernel 3 keys, as published",
    )
    kernel = (3,)
