"""RoPE whose heads come in pairs: one with the real part of the rotated product, one with its imaginary part."""

import torch
from jaxtyping import Float
from torch import Tensor

from .base import At
from .bibliography import published
from .rope import RoPE, rotate_pairs


class RoPEPlusPlus(RoPE):
    """Heads 2n and 2n + 1 share the query, key and value of head 2n; in the second, the query is turned back by π/2.

    With an odd number of heads, the last one is RoPE.
    """

    info = published(
        "rope_pp",
        like=RoPE.info,
        formula="head pairs with one q, k, v: R(i)q·R(j)k and R(i)R(−π/2)q·R(j)k, as in `rope`",
        past="as `rope`",
    )

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
