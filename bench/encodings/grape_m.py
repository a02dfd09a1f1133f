"""RoPE whose frequencies are learned."""

from torch import Tensor, nn

from .base import At, Encoding
from .bibliography import published
from .rope import RoPE, frequencies, rotate_pairs

SCALE = 16.0
"""The parameter is SCALE·ln θ_t, so that an optimiser with steps of fixed size, such as Adam, changes ln θ_t more slowly."""


class GrapeM(Encoding):
    """RoPE with learned θ_t, one set per layer for all heads, initialised to those of RoPE.

    The multiplicative form whose planes are fixed channel pairs and whose frequencies do not depend on content.
    """

    info = published(
        "grape_m",
        like=RoPE.info,
        formula="`rope` with learned θ_t = exp(w_t/16), w_t initialised to 16·ln 10000^(−2t/d)",
        past="as `rope`, with the frequencies that training chose",
        lengths="base 10000 at the start, as published",
    )

    def __init__(self, setup, *, base: float = 10000.0):
        super().__init__(setup)
        start = SCALE * frequencies(setup.head_width, base).log()
        self.log_frequencies = nn.Parameter(start.float().repeat(setup.layers, 1))

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        thetas = (self.log_frequencies[at.layer] / SCALE).double().exp()
        angles = (at.positions[..., None] * thetas).unsqueeze(-3)  # axis for the heads
        cos, sin = angles.cos().float(), angles.sin().float()
        return rotate_pairs(q, cos, sin), rotate_pairs(k, cos, sin)
