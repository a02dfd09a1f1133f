"""Scores multiplied by a learned sigmoid of the distance."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import masked_softmax, scores
from .base import At, Encoding
from .bibliography import published


def sigmoid_of_distance(x: Tensor, v: Tensor) -> Tensor:
    """f(x; v) = (1 + e^v)/(1 + e^(v−x)): f(0) = 1; 0 at −∞, 1 + e^v at ∞. Uses logarithms to avoid overflow."""
    return (F.softplus(v) + F.logsigmoid(x - v)).exp()


class DATransformer(Encoding):
    """s_ij = ReLU(q_i·k_j)·f(w_h·|i − j|; v_h)/√d: heads with w > 0 favour far keys, those with w < 0 near ones.

    Scores are never negative, so each of n keys gets a weight of at least 1/(n·e^max s).
    """

    info = published(
        "da",
        family="relative",
        formula="s_ij = ReLU(q_i·k_j)·f(w_h·|i − j|; v_h)/√d, f(x; v) = (1 + e^v)/(1 + e^(v−x))",
        past="f approaches its limit, 0 or 1 + e^v",
        shift_invariant=True,
    )

    def __init__(self, setup, *, init_std: float = 0.02):
        super().__init__(setup)
        self.w = nn.Parameter(torch.randn(setup.layers, setup.heads, 1, 1) * init_std)
        self.v = nn.Parameter(torch.zeros(setup.layers, setup.heads, 1, 1))

    def prepare(self, at: At) -> Float[Tensor, "*B 1 T T"]:
        return at.distances.abs().float().unsqueeze(-3)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Float[Tensor, "B H T d"]:
        f = sigmoid_of_distance(self.w[at.layer] * at.shared, self.v[at.layer])
        # Apply the mask after the ReLU, which would turn −∞ into 0.
        weights = masked_softmax(scores(q, k, self.setup).relu() * f, bias, at)
        return weights.to(v.dtype) @ v
