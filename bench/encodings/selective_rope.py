"""RoPE with content-dependent angles: each token sets how far the pairs rotate."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import at_least_float32
from .base import At, Encoding, Info
from .rope import frequencies, rotate_pairs


class SelectiveRoPE(Encoding):
    """RoPE with Φ_i = Σ_{l≤i} φ_l in place of i, per head and pair; q_i and k_j differ by φ_{j+1} + … + φ_i.

    φ is a depthwise causal convolution over four tokens of W₂W₁ĥ; ĥ is the attention's input with the slice of each head
    normalised to length 1. Position ids are not used. φ = 1 would be RoPE.
    """

    info = Info(
        name="selective_rope",
        family="rotary",
        title="Selective Rotary Position Embedding",
        authors="Movahedi, Carstensen, Afzal, Hutter, Orvieto, Cevher",
        year=2026,
        link="https://openreview.net/forum?id=AQo1SEElNb",
        formula="`rope` with angles θ_t·Σ_{l≤i} φ_lt, φ = conv₄(W₂W₁ĥ), θ_t = 500000^(−2t/d)",
        past="phases grow with the content of all tokens",
        provenance="the authors' code, timurcarstensen/selective-rope, modules/rotary.py: rank 16, initialisation N(0, 0.02²)",
        shift_invariant=True,
    )

    def __init__(self, setup, *, base: float = 500000.0, rank: int = 16, kernel: int = 4, init_std: float = 0.02):
        super().__init__(setup)
        self.base = base
        pairs = setup.heads * setup.head_width // 2
        self.down = nn.Parameter(torch.randn(setup.layers, rank, setup.width) * init_std)
        self.up = nn.Parameter(torch.randn(setup.layers, pairs, rank) * init_std)
        self.kernel = nn.Parameter(torch.randn(setup.layers, pairs, kernel) * init_std)

    def phi(self, at: At) -> Float[Tensor, "B H d/2 T"]:
        h = F.normalize(at.h.unflatten(-1, (self.setup.heads, -1)), dim=-1).flatten(-2)
        x = F.linear(F.linear(h, self.down[at.layer]), self.up[at.layer]).mT  # [B, H·d/2, T]
        kernel = self.kernel[at.layer, :, None]
        x = F.conv1d(F.pad(x, (kernel.shape[-1] - 1, 0)), kernel, groups=len(kernel))
        return x.unflatten(1, (self.setup.heads, -1))

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        phases = at_least_float32(self.phi(at)).cumsum(-1).mT
        angles = phases * frequencies(self.setup.head_width, self.base).to(phases)
        return rotate_pairs(q, angles.cos(), angles.sin()), rotate_pairs(k, angles.cos(), angles.sin())
