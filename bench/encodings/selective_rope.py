"""RoPE with content-dependent angles: each token sets how far the pairs rotate."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import at_least_float32
from .base import At, Encoding
from .bibliography import published
from .rope import frequencies
from .rope_learned import turned


def low_rank_convolution(
    h: Float[Tensor, "B T D"], down: Float[Tensor, "rank D"], up: Float[Tensor, "C rank"], taps: Float[Tensor, "C taps"]
) -> Float[Tensor, "B T C"]:
    """Σ_m taps_cm·(up·down·h)_c of tokens t − (taps − 1) … t, in one product; 0 before the first token."""
    x, count = F.linear(h, down), taps.shape[1]
    window = torch.cat([F.pad(x, (0, 0, count - 1 - m, 0))[:, : x.shape[1]] for m in range(count)], -1)
    return F.linear(window, (taps.unsqueeze(2) * up.unsqueeze(1)).flatten(1))


class Selective(Encoding):
    """RoPE with Φ_i = Σ_{l≤i} φ_l in place of i, per head and pair; q_i and k_j differ by φ_{j+1} + … + φ_i.

    φ is computed from W₂W₁ĥ; ĥ is the attention's input with the slice of each head normalised to length 1. Position ids are
    not used. φ = 1 would be RoPE. ``prepare`` returns θ_t, the factors of Φ (the authors' temperatures), in float64.
    """

    def __init__(self, setup, rank: int, init_std: float):
        super().__init__(setup)
        self.pairs = setup.heads * setup.head_width // 2
        self.down = nn.Parameter(torch.randn(setup.layers, rank, setup.width) * init_std)
        self.up = nn.Parameter(torch.randn(setup.layers, self.pairs, rank) * init_std)

    def phi(self, h: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T P"]:
        """Increments of all heads and pairs, P = H·d/2, from ĥ."""
        raise NotImplementedError

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        heads = self.setup.heads
        h = F.normalize(at.h.unflatten(-1, (heads, -1)), dim=-1).flatten(-2)
        phi = at_least_float32(self.phi(h, at)).unflatten(-1, (heads, -1)).transpose(1, 2)
        return turned(q, k, phi.cumsum(2) * at.shared.to(phi.dtype))


class SelectiveRoPE(Selective):
    """φ is a causal convolution of x over four tokens, separate for each pair. It starts as NoPE, near 0."""

    info = published("selective_rope")

    def __init__(self, setup, *, base: float = 500000.0, rank: int = 32, kernel: int = 4, init_std: float = 0.02):
        super().__init__(setup, rank, init_std)
        self.base = base
        self.kernel = nn.Parameter(torch.randn(setup.layers, self.pairs, kernel) * init_std)

    def prepare(self, at: At) -> Float[Tensor, " d/2"]:
        return frequencies(self.setup.head_width, self.base, at.positions.device)

    def phi(self, h, at):
        return low_rank_convolution(h, self.down[at.layer], self.up[at.layer], self.kernel[at.layer])


class SelectiveRoPEGated(Selective):
    """φ_l = g_l·(x_l − x_{l−1} + e^b), g = sigmoid(Wĥ + c) per head, b learned per pair: the authors' grid for copying.

    θ_t = τ·tan(u_t)/tan(u_max), u_t in equal steps from 0 to u_max = 0.9999·π/2 (their temperatures of type ``rfa``). The last
    pair has θ = τ, all others almost 0. It starts at φ = 1/2, so as RoPE on the last pair.
    """

    info = published("selective_rope_gated", like=SelectiveRoPE.info)

    def __init__(self, setup, *, temperature: float = 0.25, rank: int = 32, init_std: float = 0.02):
        super().__init__(setup, rank, init_std)
        self.temperature = temperature
        self.gate = nn.Parameter(torch.randn(setup.layers, setup.heads, setup.width) * init_std)
        self.gate_bias = nn.Parameter(torch.zeros(setup.layers, setup.heads))
        self.log_step = nn.Parameter(torch.zeros(setup.layers, self.pairs))

    def prepare(self, at: At) -> Float[Tensor, " d/2"]:
        pairs, largest = self.setup.head_width // 2, 0.9999 * math.pi / 2
        slopes = torch.linspace(0, largest, pairs, dtype=torch.float64, device=at.positions.device).tan()
        return self.temperature / math.tan(largest) * slopes

    def phi(self, h, at):
        x = F.linear(F.linear(h, self.down[at.layer]), self.up[at.layer])
        before = F.pad(x, (0, 0, 1, -1))  # x of the token before; 0 for the first
        steps = x - before + self.log_step[at.layer].exp()
        gate = F.linear(h, self.gate[at.layer], self.gate_bias[at.layer]).sigmoid()
        return (steps.unflatten(-1, (self.setup.heads, -1)) * gate[..., None]).flatten(-2)
