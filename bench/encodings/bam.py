"""Attention as a Bayesian prior over distances: a generalised Gaussian whose shape, scale and place are learned."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .alibi import slopes
from .base import At, Encoding
from .bibliography import published
from .scaling import log_keys

EPSILON = 1e-5


class BAM(Encoding):
    """s_ij − e^{a_h}·(|j − i − (e^{μ_h} − e^{−μ_h})| + ε)^{β_h}, with a, β and μ learned per head, shared by all layers.

    It starts as ALiBi: β = 1, μ = 0 and a the logarithm of ALiBi's slopes.
    """

    info = published("bam")

    def __init__(self, setup):
        super().__init__(setup)
        self.log_scale = nn.Parameter(torch.tensor(slopes(setup.heads)).log())
        self.shape = nn.Parameter(torch.ones(setup.heads))
        self.place = nn.Parameter(torch.zeros(setup.heads))

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        log_scale, shape, place = (p[:, None, None] for p in (self.log_scale, self.shape, self.place))
        r = -at.distances.clamp(min=0).float().unsqueeze(-3) - (place.exp() - (-place).exp())  # later keys get that of r = 0
        return -((r.abs() + EPSILON) ** shape) * log_scale.exp()

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        return at.shared


class BAMSSMax(BAM):
    """BAM with scores and prior scaled by s_h·ln(i + 1), s learned per head and layer, 1 at the start."""

    info = published("bam_ssmax", like=BAM.info)

    def __init__(self, setup):
        super().__init__(setup)
        self.s = nn.Parameter(torch.ones(setup.layers, setup.heads))

    def scale(self, q: Tensor, at: At) -> Float[Tensor, "H T 1"]:
        return (self.s[at.layer, :, None, None] * log_keys(q)).to(q.dtype)

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return q * self.scale(q, at), k

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        return at.shared.to(q.dtype) * self.scale(q, at)
