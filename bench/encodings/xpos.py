"""RoPE with an exponential decay per channel pair."""

import torch
from torch import Tensor

from .base import At
from .bibliography import published
from .rope import RoPE, rotate_pairs


class XPos(RoPE):
    """q_i times ζ_t^((i − c)/γ) and k_j times ζ_t^(−(j − c)/γ) on top of RoPE: pair t of their product decays with i − j.

    The centre c cancels; N/2 tokens after the first one, with N the announced length, keeps the powers in range. The paper's
    blockwise attention in evaluation is left out.
    """

    info = published("xpos", like=RoPE.info)

    def __init__(self, setup, *, base: float = 10000.0, scale_base: float = 512.0):
        super().__init__(setup, base=base)
        self.scale_base = scale_base

    def prepare(self, at: At) -> tuple[Tensor, ...]:
        cos, sin = super().prepare(at)
        d = self.setup.head_width
        zeta = (torch.arange(0, d, 2, device=cos.device, dtype=torch.float64) + 0.4 * d) / (1.4 * d)
        powers = (at.positions - at.positions[..., :1] - at.announced_length / 2) / self.scale_base
        decay = (zeta ** powers[..., None]).unsqueeze(-3).float()  # axis for the heads
        return cos * decay, sin * decay, cos / decay, sin / decay

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        cos_q, sin_q, cos_k, sin_k = at.shared
        return rotate_pairs(q, cos_q, sin_q), rotate_pairs(k, cos_k, sin_k)
