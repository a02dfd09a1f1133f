"""RoPE in other fixed forms: slow pairs slowed down, pairs that turn by several frequencies, heads with the imaginary part."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from .base import At
from .bibliography import published
from .rope import RoPE, rotate_pairs

ENTRIES = ("clipped_rope(scaled=True)",)
CLIPPED = 20 / 64
"""Share of pairs that the authors of clipped RoPE clip."""
GAIN = 0.3
"""Of the coefficients of FoPE, as in its authors' smallest models; 0.4 and 0.6 in larger ones."""


class ClippedRoPE(RoPE):
    """RoPE with θ_t multiplied by weights that fall from 1 to 0 as half a cosine wave over the slowest n pairs.

    n is the authors' share of the pairs, rounded up; with ``scaled``, the number of pairs with a period over L.
    """

    info = published("clipped_rope", like=RoPE.info)

    def __init__(self, setup, *, base: float = 10000.0, scaled: bool = False):
        super().__init__(setup, base=base)
        self.scaled = scaled

    def thetas(self, at: At) -> Float[Tensor, " d/2"]:
        thetas = super().thetas(at)
        slow = thetas < 2 * math.pi / self.setup.train_tokens
        n = int(slow.sum()) if self.scaled else math.ceil(CLIPPED * len(thetas))
        if n:
            thetas[-n:] *= 0.5 + 0.5 * torch.linspace(0, math.pi, n, dtype=thetas.dtype).cos()
        return thetas


class FoPE(RoPE):
    """At most half of the pairs are rotated, each by a fixed random mixture of all frequencies with a full turn within L.

    The other pairs are mapped in the same way at every position.
    """

    info = published("fope", like=RoPE.info)

    def __init__(self, setup, *, base: float = 10000.0):
        super().__init__(setup, base=base)
        theta = super().thetas(At(setup.train_tokens))
        self.kept = theta[theta >= 2 * math.pi / setup.train_tokens]
        pairs, outputs = len(self.kept), min(len(self.kept), setup.head_width // 4)
        xavier = (2 / max(1, (pairs + setup.heads) * outputs)) ** 0.5  # as ``torch.nn.init.xavier_normal_``
        noise = torch.randn((2, setup.heads, pairs, outputs), generator=torch.Generator().manual_seed(0))
        step = math.ceil(pairs / max(1, outputs))
        own = torch.arange(pairs)[:, None] == step * torch.arange(outputs)
        self.coefficients = GAIN * xavier * noise + own.float()

    def prepare(self, at: At) -> tuple[Tensor, Tensor]:
        angles = at.positions[..., None].double() * self.kept.to(at.positions.device)
        waves = torch.stack([angles.cos(), angles.sin()])  # in float64, which autocast does not touch
        mixed = torch.einsum("c...tu,chuo->c...hto", waves, self.coefficients.to(waves)).float()
        rest = mixed.new_ones(*mixed.shape[:-1], self.setup.head_width // 2 - mixed.shape[-1])
        cos, sin = torch.cat([mixed, rest], -1)
        return cos, sin


class RoPEPlusPlus(RoPE):
    """Heads 2n and 2n + 1 share the query, key and value of head 2n; in the second, the query is turned back by π/2.

    With an odd number of heads, the last one is RoPE.
    """

    info = published("rope_pp", like=RoPE.info)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        cos, sin = at.shared
        q, k = q[:, ::2], rotate_pairs(k[:, ::2], cos, sin)
        # cos(φ − π/2) = sin φ and sin(φ − π/2) = −cos φ
        q = torch.stack([rotate_pairs(q, cos, sin), rotate_pairs(q, sin, -cos)], 2).flatten(1, 2)
        return q[:, : self.setup.heads], self.doubled(k)

    def doubled(self, x: Float[Tensor, "B h T d"]) -> Float[Tensor, "B H T d"]:
        """Each head twice."""
        return x.repeat_interleave(2, 1)[:, : self.setup.heads]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Float[Tensor, "B H T d"]:
        return super().attend(q, k, self.doubled(v[:, ::2]), bias, at)
