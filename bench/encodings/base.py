"""The heart: an encoding is a set of hooks, in the order in which data meets them. The base class *is* NoPE.

::

    tokens ─ positions ─▶ ids ─ prepare ─▶ shared        once per forward pass
    x = token embedding
    each layer:  x ─ embed ─▶ x ─ norm ─▶ h ─▶ q, k, v
                 q, k ─ rotate ─▶ q, k                   then s = q·k/√d
                 s + bias                                then the causal mask, added once by the model
                 attend: softmax(s)·v                    may be replaced whole

    hook        gives                                     by default
    positions   ids [T] or [B, T]                         0 … T−1
    prepare     anything; later hooks see it as at.shared nothing
    embed       x [B, T, D]                               x
    rotate      q, k [B, H, T, d′]                        q, k
    bias        broadcastable to [B, H, T, T], finite     None
    attend      [B, H, T, d]                              scaled dot product, causal

Shapes: B sequences, T tokens, D width, H heads, d head width; i is the query's place, j the key's.

Rules for hooks. They are pure: nothing is carried from one call to the next, and randomness comes from ``at.generator`` alone.
Cutting a sequence after position t may change no output up to t; so the length of a sequence is ``at.nominal``, announced
before the answer is written, and never the T of the tensor at hand. What hangs on ids alone is made in ``prepare``, once per
forward pass rather than once per layer. A new need becomes a field of ``At`` or ``Setup``, not an argument everywhere.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor, nn

from .kernel import attention


@dataclass(frozen=True)
class Info:
    """What an encoding declares of itself; tests hold it to the behaviour, ``lprime show`` and the board print the rest."""

    name: str
    family: str
    title: str
    """Of the paper."""
    authors: str
    year: int
    link: str
    formula: str
    past: str
    """What it does past the train length."""
    provenance: str
    """Where our formula and defaults were read, and what is second-hand."""
    shift_invariant: bool = False
    """Scores stay the same when all position ids move by the same amount."""
    random: bool = False
    """Draws from ``at.generator``."""
    ranking: Literal["standard", "longer", "task-aware"] = "standard"
    """``longer``: saw lengths past L in training; ``task-aware``: looks at what the tokens mean."""


@dataclass(frozen=True)
class Setup:
    """What an encoding may know for the life of its model."""

    layers: int
    width: int
    heads: int
    head_width: int
    train_tokens: int
    """Nominal tokens of a sequence of length L."""
    longest_tokens: int
    """Nominal tokens of the longest test length, L′."""
    symbols: tuple[str, ...] = ()
    """The vocabulary: token id → symbol."""
    roles: tuple[str, ...] = ()
    """Token id → role. An encoding that looks at it is ``task-aware``."""


@dataclass(frozen=True)
class At:
    """Where we are: handed to every hook."""

    nominal: int
    """Tokens the sequence was announced to have: in training those of L, in a test those of its length."""
    layer: int = 0
    ids: Real[Tensor, "*B T"] | None = None
    """What ``positions`` gave: whole numbers, or fractions where every encoding inside takes them (``float_ids``)."""
    shared: Any = None
    """What ``prepare`` gave."""
    source: Callable[[], Float[Tensor, "B T D"]] | None = None
    """Gives ``h``: it is made for those alone who look at it."""
    generator: torch.Generator | None = None
    causal: bool = True
    """False only in the check that a model without mask and encoding is permutation-equivariant."""

    @property
    def positions(self) -> Real[Tensor, "*B T"]:
        assert self.ids is not None, "position ids are known from `prepare` on"
        return self.ids

    @property
    def h(self) -> Float[Tensor, "B T D"]:
        """The attention's input, after the norm (not in ``positions``, ``prepare`` and ``embed``)."""
        assert self.source is not None, "the attention's input is known from `rotate` on"
        return self.source()


@dataclass(frozen=True)
class Stage:
    """A further stage of training: after the recipe's steps, at lengths drawn uniformly from 1 … L′ and announced as L′."""

    share: float = 0.01
    """Its steps, as a share of the recipe's: at most this much."""


class Encoding(nn.Module):
    """No positional encoding. A subclass declares ``info`` and overrides a hook or two.

    Settings of an encoding are keyword arguments of its constructor, after ``setup``, each with a default. One instance serves
    one model; parameters that differ per layer are one tensor with a leading layer axis.
    """

    info: ClassVar[Info]
    chosen: ClassVar[Mapping[str, Any]] = {}
    """Settings that its name sets, as in ``rope(base=500000)``."""
    float_ids: ClassVar[bool] = True
    """Position ids may be fractions. False where they are looked up in a table."""
    stage: ClassVar[Stage | None] = None
    """What it wants of training beyond the recipe; its ``ranking`` then is ``longer``."""

    def __init__(self, setup: Setup):
        super().__init__()
        self.setup = setup

    @classmethod
    def make(cls, setup: Setup) -> "Encoding":
        """An instance with the settings of its name."""
        return cls(setup, **cls.chosen)

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Int[Tensor, "*B T"]:
        """Position ids, once per forward pass."""
        return torch.arange(tokens.shape[1], device=tokens.device)

    def prepare(self, at: At) -> Any:
        """What hangs on the position ids alone, once per forward pass; later hooks find it in ``at.shared``."""
        return None

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        """The residual stream at the entry of layer ``at.layer``, before the norm; what is added here stays in the stream."""
        return x

    def rotate(
        self, q: Float[Tensor, "B H T d"], k: Float[Tensor, "B H T d"], at: At
    ) -> tuple[Float[Tensor, "B H T e"], Float[Tensor, "B H T e"]]:
        """Queries and keys, before their product."""
        return q, k

    def bias(self, q: Float[Tensor, "B H T d"], k: Float[Tensor, "B H T d"], at: At) -> Float[Tensor, "*B H T T"] | None:
        """Added to q·k/√d: finite, broadcastable to [B, H, T, T]."""
        return None

    def attend(
        self,
        q: Float[Tensor, "B H T e"],
        k: Float[Tensor, "B H T e"],
        v: Float[Tensor, "B H T d"],
        bias: Float[Tensor, "*B H T T"] | None,
        at: At,
    ) -> Float[Tensor, "B H T d"]:
        """The whole attention, for what the other hooks cannot say.

        Arguments:
            bias: None, or what ``bias`` gave with −∞ already in place of every later key.
        """
        # d, not the width of q: an encoding may widen q and k (e ≠ d) without changing the scale.
        scale = 1 / math.sqrt(self.setup.head_width)
        return attention(q, k, v, bias, scale, at.causal)


class Wrapper(Encoding):
    """An encoding that modifies another: every hook it does not override is handed on to the one inside, ``self.base``."""

    inner: ClassVar[type[Encoding]] = Encoding

    def __init__(self, setup: Setup):
        super().__init__(setup)
        self.base = self.inner.make(setup)

    def positions(self, tokens, at):
        return self.base.positions(tokens, at)

    def prepare(self, at):
        return self.base.prepare(at)

    def embed(self, x, at):
        return self.base.embed(x, at)

    def rotate(self, q, k, at):
        return self.base.rotate(q, k, at)

    def bias(self, q, k, at):
        return self.base.bias(q, k, at)

    def attend(self, q, k, v, bias, at):
        return self.base.attend(q, k, v, bias, at)


def distances(ids: Real[Tensor, "*B T"]) -> Real[Tensor, "*B T T"]:
    """r = i − j for every query i and key j; negative for later keys, which the mask hides."""
    return ids[..., :, None] - ids[..., None, :]
