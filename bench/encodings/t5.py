"""A learned bias per head and bucket of distances."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from tasks import InputError

from .base import At, Encoding
from .bibliography import published


def buckets(distance: Int[Tensor, "*shape"], count: int, max_distance: int) -> Int[Tensor, "*shape"]:
    """Bucket r for r < count/2, then logarithmic up to ``max_distance``; all larger distances share the last bucket."""
    exact = count // 2
    r = distance.clamp(min=0)
    scaled = (r.clamp(min=1).double() / exact).log() / math.log(max_distance / exact) * (count - exact)
    return torch.where(r < exact, r, (exact + scaled.long()).clamp(max=count - 1))


class T5(Encoding):
    """s_ij + b_h[bucket(i − j)], with one table for all layers. Added to q·k/√d; the original T5 has no factor 1/√d."""

    info = published(
        "t5",
        family="bias",
        formula="s_ij = q_i·k_j/√d + b_h[bucket(i − j)], 32 buckets, logarithmic from 16 to 128",
        past="distances from 113 on share one bucket; buckets past L keep their random initialisation",
        lengths="32 buckets to 128, as published",
        shift_invariant=True,
    )
    float_ids = False

    def __init__(self, setup, *, buckets: int = 32, max_distance: int = 128):
        super().__init__(setup)
        if not max_distance > buckets // 2 >= 1:
            raise InputError(f"t5 needs max_distance > buckets // 2 ≥ 1, got max_distance {max_distance} and buckets {buckets}")
        self.count, self.max_distance = buckets, max_distance
        self.table = nn.Parameter(torch.randn(buckets, setup.heads) * setup.width**-0.5)

    def prepare(self, at: At) -> Float[Tensor, "*B H T T"]:
        return self.table[buckets(at.distances, self.count, self.max_distance)].movedim(-1, -3)

    def bias(self, q: Tensor, k: Tensor, at: At) -> Float[Tensor, "*B H T T"]:
        return at.shared


class T5Scaled(T5):
    """T5 with buckets scaled to L: the last bucket starts before L, so that every bucket is trained.

    At most L/2 buckets: with 32 buckets and L = 23, distances from 23 on would use an untrained one.
    """

    info = published(
        "t5_scaled",
        like=T5.info,
        formula="s_ij = q_i·k_j/√d + b_h[bucket(i − j)], n = min(32, L/2) buckets, logarithmic from n/2 to L",
        past="distances past L share the last bucket, which is trained",
        lengths="min(32, L/2) buckets to L, scaled",
    )

    def __init__(self, setup, *, buckets: int = 32):
        count = max(2, min(buckets, setup.train_tokens // 2))
        super().__init__(setup, buckets=count, max_distance=max(count, setup.train_tokens))
