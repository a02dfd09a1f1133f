"""Sparse attention: α-entmax in place of the softmax, with a scale that each token chooses and that grows with the keys."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .alibi import NAPE
from .attention import at_least_float32, masked, scores
from .base import At
from .bibliography import published

STEPS = 10
"""Newton steps of ``Entmax``: half of log₂ T to come near the root, then each doubles the digits; 1e-6 at 1,000 keys."""


class ASEntmax(NAPE):
    """1.5-entmax with NAPE: ALiBi with slopes 1, ½, ⅓, … in the first ⌊H/2⌋ heads, NoPE with scaled queries in the rest.

    A NoPE head multiplies q_i by 1 + β (ln(i + 2))^γ, with β = softplus(w_β·h_i + b_β) and γ = 2 tanh(w_γ·h_i + b_γ).
    """

    info = published(
        "asentmax",
        like=NAPE.info,
        family="scaling",
        formula="A = entmax₁.₅(s), s_ij = q_i·k_j/√d − (i − j)/h for h ≤ ⌊H/2⌋, else (1 + β_i (ln(i + 2))^γ_i) q_i·k_j/√d",
        past="the bias stays linear in half of the heads; in the others the scale follows ln n; far keys can get weight 0",
    )

    def __init__(self, setup):
        super().__init__(setup)
        scaled = setup.heads - setup.heads // 2
        self.beta = nn.Parameter(torch.randn(setup.layers, scaled, setup.width) * 0.02)
        self.beta_offset = nn.Parameter(torch.zeros(setup.layers, scaled))
        self.gamma = nn.Parameter(torch.randn(setup.layers, scaled, setup.width) * 0.02)
        self.gamma_offset = nn.Parameter(torch.zeros(setup.layers, scaled))

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        beta = F.softplus(F.linear(at.h, self.beta[at.layer], self.beta_offset[at.layer]))  # [B, T, scaled heads]
        gamma = 2 * F.linear(at.h, self.gamma[at.layer], self.gamma_offset[at.layer]).tanh()
        logs = torch.arange(2, q.shape[2] + 2, device=q.device, dtype=torch.float64).log().to(beta.dtype)[:, None]
        scale = F.pad(1 + beta * logs**gamma, (self.setup.heads // 2, 0), value=1.0)  # 1 in the heads with a bias
        return q * scale.mT.unsqueeze(-1).to(q.dtype), k

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Tensor:
        s = at_least_float32(scores(q, k, self.setup))
        return Entmax.apply(masked(s, bias, at)).to(v.dtype) @ v


class Entmax(torch.autograd.Function):
    """1.5-entmax over the last axis: p_j = max(s_j/2 − τ, 0)², with τ such that Σ p = 1.

    Newton's method for τ. The sum of p is convex and decreasing in τ, and at least 1 at τ = max s/2 − 1, so that steps from
    there never pass the root. Gradient: ds = √p ∘ (dp − Σ(√p dp)/Σ√p). Keys are padded to whole vectors.
    """

    @staticmethod
    def forward(ctx, s):
        count = s.shape[-1]
        x = F.pad((s - s.amax(-1, keepdim=True)) / 2, (0, -count % 16), value=-1)  # at −1 or less, p = 0
        tau = torch.full_like(x[..., :1], -1)
        for _ in range(STEPS):
            root = (x - tau).relu_()
            tau += (root.square().sum(-1, keepdim=True) - 1) / (2 * root.sum(-1, keepdim=True))
        root = (x - tau).relu_()[..., :count]
        ctx.save_for_backward(root)
        return root.square()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (root,) = ctx.saved_tensors
        mean = (root * gradient).sum(-1, keepdim=True) / root.sum(-1, keepdim=True)
        return root * (gradient - mean)
