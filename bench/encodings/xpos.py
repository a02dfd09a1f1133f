"""RoPE with a decay of its own for every pair."""

from dataclasses import replace

import torch
from torch import Tensor

from tasks import InputError

from .base import At
from .rope import RoPE, turn


class XPos(RoPE):
    """q_i times ζ_t^((i − c)/γ) and k_j times ζ_t^(−(j − c)/γ) on top of RoPE: pair t of their product decays with i − j.

    γ = L/2 tokens, as 512 to the 1024 of the paper. The centre c cancels; at N/2 from the first token, N the announced length,
    it keeps powers in range. Without the blockwise attention that the paper adds at test time.
    """

    info = replace(
        RoPE.info,
        name="xpos",
        title="A Length-Extrapolatable Transformer",
        authors="Sun, Dong, Patra, Ma, Huang, Benhaim, Chaudhary, Song, Wei",
        year=2022,
        link="https://arxiv.org/abs/2212.10554",
        formula="`rope`, pair t of the product times ζ_t^((i − j)/γ), ζ_t = (2t + 0.4d)/(1.4d), γ = L/2",
        past="as `rope`, but what is far has faded; fast pairs fade first",
        provenance="torchscale, xpos_relative_position.py, where γ = 512; from memory: that the paper's L is 1024",
    )

    def __init__(self, setup, *, base: float = 10000.0, scale: float = 0.5):
        super().__init__(setup, base=base)
        if scale <= 0:
            raise InputError(f"scale of xpos must be positive, got {scale}")
        self.scale = scale

    def prepare(self, at: At) -> tuple[Tensor, ...]:
        cos, sin = super().prepare(at)
        d = self.setup.head_width
        zeta = (torch.arange(0, d, 2, device=cos.device, dtype=torch.float64) + 0.4 * d) / (1.4 * d)
        powers = (at.positions - at.positions[..., :1] - at.nominal / 2) / (self.scale * self.setup.train_tokens)
        decay = (zeta ** powers[..., None]).unsqueeze(-3).float()  # one axis for the heads
        return cos * decay, sin * decay, cos / decay, sin / decay

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        cos_q, sin_q, cos_k, sin_k = at.shared
        return turn(q, cos_q, sin_q), turn(k, cos_k, sin_k)
