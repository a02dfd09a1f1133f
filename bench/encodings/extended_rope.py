"""RoPE extended at test time without training: each pair of tokens is rotated by a distance that stays within the trained ones.

All of these train as ``rope``, and equal ``rope`` up to the training length.
"""

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tasks import InputError

from .attention import masked_softmax, scores
from .base import At
from .bibliography import published
from .ntk import as_rope
from .rope import RoPE, rotate_pairs

ENTRIES = ("rerope(leaky=True)",)
Piece = tuple[Float[Tensor, " T"], Float[Tensor, " T"], Bool[Tensor, "T T"]]
"""Positions of queries, positions of keys, and the pairs (i, j) whose score uses these positions."""


class ExtendedRoPE(RoPE):
    """Base of the family: past L, ``pieces`` says by which positions each pair of tokens is rotated."""

    log_scaled: ClassVar[bool] = False
    """Queries are multiplied by max(1, ln(i + 1)/ln L) past L."""

    def pieces(self, index: Float[Tensor, " T"], at: At) -> Iterator[Piece]:
        """Yield positions and the pairs that they are for. A later piece replaces an earlier one.

        Arguments:
            index: 0 … T − 1, in float64.
            at: the context; its ids are not used.
        """
        raise NotImplementedError

    def extends(self, at: At) -> bool:
        return at.announced_length > self.setup.train_tokens

    def prepare(self, at: At) -> tuple[Any, ...]:
        """Up to L as ``rope``. Past L: factors of the queries [T, 1]; for each piece, cos and sin of queries and of keys
        [T, d/2], and its pairs."""
        if not self.extends(at):
            return super().prepare(at)
        index = torch.arange(at.positions.shape[-1], device=at.positions.device, dtype=torch.float64)
        thetas = self.thetas(at).to(index.device)

        def turn(positions: Float[Tensor, " T"]) -> tuple[Tensor, Tensor]:
            angles = positions[:, None] * thetas
            return angles.cos().float(), angles.sin().float()

        pieces = [(turn(query), turn(key), pairs) for query, key, pairs in self.pieces(index, at)]
        factors = ((index + 1).log() / math.log(self.setup.train_tokens)).clamp(min=1)
        return (factors if self.log_scaled else torch.ones_like(index))[:, None], pieces

    def rotate(self, q: Tensor, k: Tensor, at: At) -> tuple[Tensor, Tensor]:
        return (q, k) if self.extends(at) else super().rotate(q, k, at)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Float[Tensor, "B H T d"]:
        if not self.extends(at):
            return super().attend(q, k, v, bias, at)
        factors, pieces = at.shared
        q, s = q * factors.to(q.dtype), torch.empty(())
        for n, (query, key, pairs) in enumerate(pieces):
            own = scores(rotate_pairs(q, *query), rotate_pairs(k, *key), self.setup)
            s = torch.where(pairs, own, s) if n else own
        return masked_softmax(s, bias, at) @ v


class ReRoPE(ExtendedRoPE):
    """Distances beyond w are w: r ← min(r, w), with queries scaled by max(1, ln(i + 1)/ln L).

    With ``leaky`` they grow by 1/k a token: r ← w + (r − w)/k, with k such that the last distance is L.
    """

    info = published("rerope", like=RoPE.info)
    log_scaled = True
    trained_as = classmethod(as_rope)

    def __init__(self, setup, *, base: float = 10000.0, share: float = 0.5, leaky: bool = False):
        super().__init__(setup, base=base)
        if not 0 < share <= 1:
            raise InputError(f"share of {self.info.name} must be in (0, 1], got {share}")
        self.window, self.leaky = max(1, round(share * setup.train_tokens)), leaky

    def far(self, index: Float[Tensor, " T"], at: At) -> tuple[Float[Tensor, " T"], Float[Tensor, " T"]]:
        """Positions of queries and keys of pairs that are at least w apart."""
        w, length = self.window, self.setup.train_tokens
        if not self.leaky:
            return torch.full_like(index, w), torch.zeros_like(index)
        k = max(1.0, (at.announced_length - w) / max(1, length - w))
        return (index + w * (k - 1)) / k, index / k

    def pieces(self, index, at):
        near = index[:, None] - index < self.window
        yield *self.far(index, at), ~near
        yield index, index, near


class SelfExtend(ReRoPE):
    """Distances beyond w are counted in groups of G tokens: ⌊i/G⌋ − ⌊j/G⌋ + w − w/G, with G such that L′ stays within L."""

    info = published("self_extend", like=RoPE.info)
    log_scaled = False
    trained_as = classmethod(as_rope)

    def __init__(self, setup, *, base: float = 10000.0, share: float = 0.25):
        super().__init__(setup, base=base, share=share)

    def far(self, index, at):
        w, length = self.window, self.setup.train_tokens
        group = max(1, math.ceil((at.announced_length - w) / max(1, length - w)))
        groups = (index / group).floor()
        return groups + w - w / group, groups


class DualChunk(ExtendedRoPE):
    """Chunks of 5L/8 tokens: usual distances in a chunk and to the chunk before, one constant distance to earlier chunks."""

    info = published("dual_chunk", like=RoPE.info)
    trained_as = classmethod(as_rope)

    def pieces(self, index, at):
        size = self.setup.train_tokens * 3 // 4
        chunk = max(1, size - self.setup.train_tokens // 8)
        key, chunks = index % chunk, (index / chunk).floor()
        apart = chunks[:, None] - chunks
        yield torch.full_like(index, min(2 * chunk - 1, size)), key, apart > 1
        yield (key + chunk).clamp(max=size), key, apart == 1
        yield key, key, apart == 0
