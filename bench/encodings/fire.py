"""A bias computed by a small network from the distance, normalised by the query's position."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .base import At, Encoding, distances
from .bibliography import published


def normalised_distance(r: Tensor, i: Tensor, c: Tensor, threshold: Tensor) -> Tensor:
    """ψ(r)/ψ(max(T₀, i)), ψ(x) = ln(|c|·x + 1): 0 at the query itself, 1 at the first token once i > T₀."""
    return (c.abs() * r).log1p() / ((c.abs() * torch.maximum(threshold, i)).log1p() + 1e-6)


class FIRE(Encoding):
    """s_ij + MLP_h(ψ(i − j)/ψ(max(T₀, i))). Each layer has its own c, T₀ and ReLU MLP 1 → 32 → H.

    The MLP has no output bias: the softmax ignores what all keys share.
    """

    info = published(
        "fire",
        family="bias",
        formula="s_ij = q_i·k_j/√d + MLP_h(ψ(i − j)/ψ(max(T₀, i))), ψ(x) = ln(|c|·x + 1), T₀ = |m|·512, c and m learned",
        past="the same curve up to T₀; beyond, distances are rescaled into the trained range",
        lengths="T₀ = 512, as published",
    )

    def __init__(self, setup, *, threshold: float = 512.0, hidden: int = 32):
        super().__init__(setup)
        self.threshold = threshold
        self.c = nn.Parameter(torch.full((setup.layers, 1), 0.1))
        self.m = nn.Parameter(torch.ones(setup.layers, 1))
        # U(±1/√inputs), as in nn.Linear.
        self.w1 = nn.Parameter(2 * torch.rand(setup.layers, hidden) - 1)
        self.b1 = nn.Parameter(2 * torch.rand(setup.layers, hidden) - 1)
        self.w2 = nn.Parameter((2 * torch.rand(setup.layers, setup.heads, hidden) - 1) * hidden**-0.5)

    def prepare(self, at: At) -> tuple[Tensor, Tensor]:
        return distances(at.positions).clamp(min=0).float(), at.positions[..., :, None].float()

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        r, i = at.shared
        x = normalised_distance(r, i, self.c[at.layer], (self.m[at.layer] * self.threshold).abs())[..., None]
        hidden = (x * self.w1[at.layer] + self.b1[at.layer]).relu()
        return (hidden @ self.w2[at.layer].T).movedim(-1, -3)


class FIREScaled(FIRE):
    """FIRE with T₀ initialised to L/2 tokens, so that the longer half of the training lengths is already rescaled."""

    info = published(
        "fire_scaled",
        like=FIRE.info,
        formula="s_ij = q_i·k_j/√d + MLP_h(ψ(i − j)/ψ(max(T₀, i))), ψ(x) = ln(|c|·x + 1), T₀ = |m|·L/2, c and m learned",
        past="distances are rescaled into the trained range",
        lengths="T₀ = L/2, scaled",
    )

    def __init__(self, setup, *, hidden: int = 32):
        super().__init__(setup, threshold=setup.train_tokens / 2, hidden=hidden)
