"""Measure which properties of an ideal encoding an encoding has.

The measurements compare *codes* of positions, as the rest of the model can see them: what ``embed`` adds at a position, and the
attention weight of a fixed query on a fixed key there. The content is the same at every position, so only the encoding differs.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from bench.encodings import At, Encoding, Setup

POSITIONS = 96
"""Number of positions whose codes are compared; the training length of their setup is a quarter of it."""
SHIFT = 5000
"""Added to all ids to see if attention depends on differences only; some encodings change with absolute positions later."""
SAME = 1e-9
"""Codes closer than this (float64, unit scale) count as equal."""


@dataclass(frozen=True)
class Properties:
    """Properties of an ideal encoding (Zhao et al. 2024, *Length Extrapolation of Transformers: A Survey from the
    Perspective of Positional Encoding*), each measured on an untrained instance."""

    unique: bool
    """All positions, seen from the end of the sequence, have different codes."""
    linear: bool
    """One linear map takes the code of every p to that of p + 3; or attention depends only on differences of positions."""
    defined_past_train: bool
    """Outputs are finite at ten times the training length, which is beyond the longest length of its setup."""
    deterministic: bool
    """Two passes with different generators give the same codes."""
    several_dimensions: bool
    """Codes depend on the given ids, not on the order of the sequence: each axis of a grid can have its own ids."""


class BareEncoding:
    """One encoding without a model, in float64, with fixed content."""

    def __init__(self, cls: type[Encoding], generator_seed: int = 0):
        self.generator_seed = generator_seed
        heads, head_width = 4, 8
        self.setup = Setup(
            layers=2, width=32, heads=heads, head_width=head_width, train_tokens=POSITIONS // 4, longest_tokens=2 * POSITIONS,
            train_length=POSITIONS // 4, longest_length=2 * POSITIONS,
            symbols=("<pad>", "<bos>", "<sep>", "<eos>", "0", "1"), roles=("special",) * 4 + ("digit",) * 2,
        )  # fmt: skip
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.encoding = cls.make(self.setup).double().eval()
            # Parameters with a neutral initial value (zeros, for example) would hide what the method can distinguish.
            for parameter in self.encoding.parameters():
                parameter.data += 0.1 * torch.randn_like(parameter)
            self.q, self.k = torch.randn(2, 1, heads, 1, head_width, dtype=torch.float64)
            self.h = torch.randn(1, 1, self.setup.width, dtype=torch.float64)

    def at(self, ids: Int[Tensor, " T"] | None = None, count: int = POSITIONS) -> At:
        """The context of ``count`` tokens with the given ids; by default, those of the encoding itself."""
        at = At(
            announced_length=count,
            generator=torch.Generator().manual_seed(self.generator_seed),
            source=lambda: self.h.expand(1, count, -1),
        )
        tokens = torch.full((1, count), 4)
        at = replace(at, ids=self.encoding.positions(tokens, at) if ids is None else ids)
        return replace(at, shared=self.encoding.prepare(at))

    @torch.no_grad()
    def embedding(self, ids: Int[Tensor, " T"] | None = None, count: int = POSITIONS) -> Float[Tensor, "T D"]:
        """What ``embed`` adds at each position in the first layer."""
        zero = torch.zeros(1, count, self.setup.width, dtype=torch.float64)
        return self.encoding.embed(zero, self.at(ids, count)).squeeze(0)

    @torch.no_grad()
    def attention(self, ids: Int[Tensor, " T"] | None = None, count: int = POSITIONS) -> Float[Tensor, "H T"]:
        """Attention weights of the last query over all positions, read from one-hot values."""
        width = self.setup.head_width
        at = self.at(ids, count)
        parts = []
        for v in F.pad(torch.eye(count, dtype=torch.float64), (0, -count % width)).split(width, 1):
            q, k = (x.expand(-1, -1, count, -1) for x in (self.q, self.k))
            q, k = self.encoding.rotate(q, k, at)
            v = v.repeat(1, self.setup.heads, 1, 1)
            parts.append(self.encoding.attend(q, k, v, self.encoding.bias(q, k, at), at)[0, :, -1])
        return torch.cat(parts, -1)[:, :count]

    def codes(self, ids: Int[Tensor, " T"] | None = None) -> Float[Tensor, "T F"]:
        """Codes of all positions: embedding, and logarithm of the attention from the last query."""
        log_attention = self.attention(ids).clamp(min=1e-300).log()
        return torch.cat([self.embedding(ids), log_attention.T], 1)


def measure_properties(cls: type[Encoding]) -> Properties:
    """Measure the five properties of one encoding."""
    bare = BareEncoding(cls)
    codes = bare.codes()[:-1]  # without the query itself, which some encodings treat specially
    gaps = torch.cdist(codes, codes, p=math.inf) + torch.eye(len(codes)) * 1e9
    return Properties(
        unique=bool(gaps.min() > SAME),
        linear=is_linear(bare),
        defined_past_train=is_finite_past_train(bare),
        deterministic=torch.equal(bare.codes(), BareEncoding(cls, generator_seed=1).codes()),
        several_dimensions=depends_on_ids(bare),
    )


def is_linear(bare: BareEncoding) -> bool:
    """Return whether p ↦ p + 3 is one linear map of embeddings; or, without them, attention depends only on differences."""
    codes = bare.embedding()
    if bool(codes.abs().max() > SAME):
        before, after = codes[:-3], codes[3:]
        # Fitted on even positions, tested on odd ones. Cut-off and tolerance allow for tables in float32.
        linear_map = torch.linalg.lstsq(before[::2], after[::2], rcond=1e-5, driver="gelsd").solution
        error = before[1::2] @ linear_map - after[1::2]
        return bool(error.abs().max() < 1e-2 * codes.abs().max())
    ids = bare.at().positions
    if not bool((bare.attention().std(-1) > SAME).any()):
        return False  # no code
    shifted = bare.attention(ids + SHIFT)
    return bool((bare.attention(ids) - shifted).abs().max() < 1e-6) and depends_on_ids(bare)


def is_finite_past_train(bare: BareEncoding) -> bool:
    count = 10 * bare.setup.train_tokens
    try:
        return bool(bare.embedding(count=count).isfinite().all() and bare.attention(count=count).isfinite().all())
    except (IndexError, ValueError, RuntimeError):
        return False


def depends_on_ids(bare: BareEncoding) -> bool:
    """Return whether other ids give other codes."""
    ids = bare.at().positions
    if ids.ndim > 1:
        return False
    permuted = torch.cat([ids[:-1].flip(0), ids[-1:]])  # also near the query: windows may end there
    return bool((bare.codes(ids) - bare.codes(permuted)).abs().max() > SAME)
