"""Wrappers that keep attention sharp, or its output of one size, over more keys than in training."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import masked, masked_softmax, scores
from .base import At, Wrapper
from .bibliography import published

ENTRIES = (
    "adaptive_temperature(nope)",
    "adaptive_temperature(rope)",
    "norm_after(nope)",
    "scale_invariant(p_rope)",
    "scale_invariant(nope)",
)
FIT = (-0.037, 0.481, -2.3, 4.917, -1.791)
"""Coefficients of the inverse temperature as a polynomial of the entropy, highest power first (Figure 5 of the paper)."""


class AdaptiveTemperature(Wrapper):
    """Attention recomputed with an inverse temperature that depends on its entropy, in tests beyond L only.

    β(H) = max(1, −0.037·H⁴ + 0.481·H³ − 2.3·H² + 4.917·H − 1.791) for H > 0.5, otherwise 1; H is the entropy of the query's
    weights in nats. β is not differentiated: it is meant for inference.
    """

    info = published("adaptive_temperature")

    @classmethod
    def trained_as(cls):
        return cls.inner

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Float[Tensor, "B H T d"]:
        if at.announced_length <= self.setup.train_tokens:
            return super().attend(q, k, v, bias, at)
        s = masked(scores(q, k, self.setup), bias, at).float()
        p = s.detach().softmax(-1)
        entropy = -(p * (p + 1e-9).log()).sum(-1, keepdim=True)
        fit = torch.zeros_like(entropy)
        for coefficient in FIT:
            fit = fit * entropy + coefficient
        beta = torch.where(entropy > 0.5, fit.clamp(min=1), torch.ones_like(fit))
        return (s * beta).softmax(-1).to(v.dtype) @ v


class NormAfter(Wrapper):
    """A layer norm over each head's output, so that its size does not shrink as attention spreads over more keys."""

    info = published("norm_after")

    def __init__(self, setup):
        super().__init__(setup)
        self.gain = nn.Parameter(torch.ones(setup.layers, setup.heads, 1, setup.head_width))
        self.offset = nn.Parameter(torch.zeros(setup.layers, setup.heads, 1, setup.head_width))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Float[Tensor, "B H T d"]:
        out = super().attend(q, k, v, bias, at)
        return F.layer_norm(out, out.shape[-1:]) * self.gain[at.layer].to(out.dtype) + self.offset[at.layer].to(out.dtype)


class ScaleInvariant(Wrapper):
    """Scores scaled and shifted by distance: for Gaussian scores, every octave of distance gets the same total attention."""

    info = published("scale_invariant")
    combined_with = ("p_rope",)

    def __init__(self, setup, *, tau: float = 10.0):
        super().__init__(setup)
        self.tau = tau

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Float[Tensor, "B H T d"]:
        square = 2 * (at.distances.clamp(min=0).float() / self.tau).log1p() + 1
        s = scores(q, k, self.setup)
        s = s if bias is None else s + bias
        return masked_softmax(s * square.sqrt().unsqueeze(-3), (1 - square).unsqueeze(-3), at) @ v
