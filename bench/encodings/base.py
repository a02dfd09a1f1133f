"""The base class of encodings: a set of hooks, which the model calls in the order below. The base class *is* NoPE.

::

    tokens ─ positions ─▶ ids ─ prepare ─▶ shared        once per forward pass
    x = token embedding
    each layer:  x ─ embed ─▶ x ─ norm ─▶ h ─▶ q, k, v
                 q, k ─ rotate ─▶ q, k
                 q, k ─ bias ─▶ bias
                 attend: softmax(q·k/√d + bias)·v        over keys j ≤ i; can be replaced as a whole
        MLP ─ advance ─▶ state                  for the next layer

    hook        returns                                   default
    positions   position ids [T] or [B, T]                0 … T−1
    prepare     anything; later hooks read at.shared      None
    embed       x [B, T, D]                               x
    rotate      q, k [B, H, T, e]                         q, k
    bias        broadcastable to [B, H, T, T], finite     None
    attend      [B, H, T, d]                              scaled dot product, causal
    advance     anything; the next layer reads at.state   None

Shapes: B sequences, T tokens, D model width, H heads, d head width; i indexes queries, j keys.

Rules for hooks. Hooks are pure: no state is kept between calls, and all randomness comes from ``at.generator``. Truncating a
sequence after position t must not change any output up to t. So use ``at.announced_length`` as the length of the sequence (it
is known before the answer is generated), never the T of a tensor. Put what depends only on position ids into ``prepare``, which
runs once per forward pass and not once per layer. If hooks need a new input, it becomes a field of ``At`` or ``Setup``, not
another argument.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int, Real
from torch import Tensor, nn

from bench.result import RankingClass, SourceKind

from .attention_kernel import attention


@dataclass(frozen=True)
class Info:
    """What an encoding declares about itself. ``lprime check`` tests ``random`` and ``ranking``; ``lprime show`` prints it.

    Of built-in encodings, what others have published is in ``bibliography.toml``; see ``bibliography.published``.
    """

    name: str
    family: str
    title: str
    """Title of the paper."""
    authors: str
    year: int
    link: str
    """Link to the paper; https."""
    formula: str
    past: str
    """Behaviour beyond the training length (l > L)."""
    provenance: str
    """Source of the formula and defaults: the code or paper they come from, and which parts are second-hand or our choice."""
    source: SourceKind = "second-hand"
    """How sure the source is: the best one that the implementation was compared with."""
    lengths: str = ""
    """Settings that are lengths in tokens (clip, window, table size, …) and the rule of each, as in ``k = 16, as published`` or
    ``k = L/2, scaled``. Empty without such a setting."""
    shift_invariant: bool = False
    """Adding a constant to all position ids does not change the scores."""
    random: bool = False
    """Draws random numbers from ``at.generator``."""
    ranking: RankingClass = "standard"
    """``longer``: trains on lengths past L, or at their position ids (``pose``); ``task-aware``: uses what the tokens are or
    mean. Others see no tokens."""
    gloss: str = ""
    """The idea in at most eight plain words."""
    code: str = ""
    """Link to the authors' code."""
    fused: Literal["", "yes", "as a bias", "own kernel"] = ""
    """Whether fused attention, such as FlashAttention, computes it: as it is, with a bias, or only by a kernel of its own."""
    cache: Literal["", "yes", "recompute"] = ""
    """Whether keys cached during generation stay valid, or change with the length or with later tokens."""
    checkpoint: Literal["", "from scratch", "RoPE checkpoint"] = ""
    """What it is trained from in its paper."""
    sees: Literal["", "content"] = ""
    """``content`` if its hooks use tokens or hidden states, other than to turn, shift or bias them by position."""


@dataclass(frozen=True)
class Setup:
    """Sizes and lengths that an encoding is built for; constant for the life of its model."""

    layers: int
    width: int
    heads: int
    head_width: int
    train_tokens: int
    """Announced tokens of a sequence of the training length L."""
    longest_tokens: int
    """Announced tokens of a sequence of the longest test length, L′."""
    train_length: int
    """The training length L in the task's own unit, such as digits per operand."""
    longest_length: int
    """The longest test length L′ in the task's own unit."""
    symbols: tuple[str, ...] = ()
    """The vocabulary: token id → symbol; empty unless the encoding is ``task-aware``."""
    roles: tuple[str, ...] = ()
    """Token id → role, such as ``digit``; empty unless the encoding is ``task-aware``."""


@dataclass(frozen=True)
class At:
    """The context of one hook call, passed to every hook."""

    announced_length: int
    """Announced tokens of the sequence: those of L in training, those of the test length in evaluation."""
    after_stage: bool = False
    """True in an extra stage (``Stage``) and in the evaluation after it."""
    layer: int = 0
    ids: Real[Tensor, "*B T"] | None = None
    """Output of ``positions``: integers, or fractions if the encoding accepts them (``float_ids``)."""
    drawn_distances: Real[Tensor, "*B T T"] | None = None
    """Distances that replace the differences of ids, from a wrapper such as ``randomised``."""
    shared: Any = None
    """Output of ``prepare``."""
    state: Any = None
    """Output of ``advance`` in the layer before."""
    source: Callable[[], Float[Tensor, "B T D"]] | None = None
    """Computes ``h``, lazily: most encodings do not need it."""
    generator: torch.Generator | None = None
    causal: bool = True
    """False only in the test that a model without mask and encoding is permutation-equivariant."""

    @property
    def positions(self) -> Real[Tensor, "*B T"]:
        assert self.ids is not None, "position ids are available from `prepare` on"
        return self.ids

    @property
    def distances(self) -> Real[Tensor, "*B T T"]:
        """r = i − j for every query i and key j, from the ids; negative for later keys, which the mask hides."""
        return distances(self.positions) if self.drawn_distances is None else self.drawn_distances

    @property
    def h(self) -> Float[Tensor, "B T D"]:
        """The normalised input of the attention (not available in ``positions``, ``prepare`` and ``embed``)."""
        assert self.source is not None, "the attention's input is available from `rotate` on"
        return self.source()


@dataclass(frozen=True)
class Stage:
    """An extra training stage after the recipe's last step."""

    share: float = 0.01
    """Its steps as a share of the recipe's: at longer lengths at most this default (built in: 0.05), else 0.125 (``drope``)."""
    longer: bool = True
    """Lengths are drawn from 1 … L′ and announced as L′, in the tests too. False: lengths and announced lengths stay those of
    training and testing."""
    encoding_only: bool = False
    """Only the encoding's own parameters are trained; the model's stay as they are."""

    def faults(self, ranking: str, plugin: bool) -> Iterator[str]:
        """What the rules do not allow about it, given the encoding's ranking class and whether it is a plugin."""
        most = (Stage.share if plugin else 0.05) if self.longer else 0.125
        if self.longer and ranking == "standard":
            yield "has a further training stage, but its ranking is not 'longer'"
        if not self.longer and plugin:
            yield "has a further training stage at lengths up to L, which the rules of submissions do not allow"
        if not 0 < self.share <= most:
            yield f"its further stage takes {self.share!r:.20} of the steps; expected more than 0, at most {most:g}"


class Encoding(nn.Module):
    """Base class: no positional encoding. A subclass declares ``info`` and overrides one or two hooks.

    Settings are keyword arguments of the constructor, after ``setup``, each with a default. One instance serves one model;
    parameters that differ per layer are one tensor with a leading layer axis.
    """

    info: ClassVar[Info]
    chosen: ClassVar[Mapping[str, Any]] = {}
    """Settings given in the name, as in ``rope(base=500000)``."""
    float_ids: ClassVar[bool] = True
    """Position ids may be fractions. False for encodings that look them up in a table."""
    stage: ClassVar[Stage | None] = None
    """Extra training stage, if any; if its lengths are longer, ``ranking`` must not be ``standard``."""

    def __init__(self, setup: Setup):
        super().__init__()
        self.setup = setup

    @classmethod
    def make(cls, setup: Setup) -> "Encoding":
        """Create an instance with the settings given in the name."""
        return cls(setup, **cls.chosen)

    @classmethod
    def trained_as(cls) -> "type[Encoding] | None":
        """The encoding whose training is the same bit for bit up to the recipe's last step, if any: the two share one training.

        For encodings that change only the tests past L, or have an extra stage. Valid for the class that defines it; a subclass
        with its own ``info`` declares its own.
        """
        return None

    def positions(self, tokens: Int[Tensor, "B T"], at: At) -> Int[Tensor, "*B T"]:
        """Return position ids. Called once per forward pass, with zeros as tokens unless the encoding is ``task-aware``."""
        return torch.arange(tokens.shape[1], device=tokens.device)

    def prepare(self, at: At) -> Any:
        """Compute what depends only on position ids. Called once per forward pass; later hooks read it as ``at.shared``."""
        return None

    def embed(self, x: Float[Tensor, "B T D"], at: At) -> Float[Tensor, "B T D"]:
        """Change the residual stream at the input of layer ``at.layer``, before the norm."""
        return x

    def rotate(
        self, q: Float[Tensor, "B H T d"], k: Float[Tensor, "B H T d"], at: At
    ) -> tuple[Float[Tensor, "B H T e"], Float[Tensor, "B H T e"]]:
        """Transform queries and keys before their dot product."""
        return q, k

    def bias(self, q: Float[Tensor, "B H T d"], k: Float[Tensor, "B H T d"], at: At) -> Float[Tensor, "*B H T T"] | None:
        """Return a finite bias to add to q·k/√d, broadcastable to [B, H, T, T]."""
        return None

    def attend(
        self,
        q: Float[Tensor, "B H T e"],
        k: Float[Tensor, "B H T e"],
        v: Float[Tensor, "B H T d"],
        bias: Float[Tensor, "*B H T T"] | None,
        at: At,
    ) -> Float[Tensor, "B H T d"]:
        """Compute the whole attention; override it only when the other hooks are not enough.

        Arguments:
            bias: the output of ``bias``, or None. It does not hide later keys; ``masked_softmax`` of ``attention.py`` does.
        """
        # d, not the width of q: an encoding may widen q and k (e ≠ d) without changing the scale.
        scale = 1 / math.sqrt(self.setup.head_width)
        return attention(q, k, v, bias, scale, at.causal)

    def advance(
        self,
        q: Float[Tensor, "B H T e"],
        k: Float[Tensor, "B H T e"],
        bias: Float[Tensor, "*B H T T"] | None,
        mlp: Float[Tensor, "B T D"],
        at: At,
    ) -> Any:
        """Compute what the next layer reads as ``at.state`` from what the MLP returned. Not called in the last layer."""
        return None


class Wrapper(Encoding):
    """An encoding that modifies another. Hooks it does not override are forwarded to the wrapped encoding, ``self.base``, with
    the context that ``inner_at`` returns."""

    inner: ClassVar[type[Encoding]] = Encoding
    combined_with: ClassVar[tuple[str, ...]] = ()
    """Encodings that its source combines it with; around any other one it is an own variant. Empty: around all."""

    def __init__(self, setup: Setup):
        super().__init__(setup)
        self.base = self.inner.make(setup)

    def inner_at(self, at: At) -> At:
        """Return the context for hooks of the wrapped encoding after ``prepare``; override it to change ids or ``shared``."""
        return at

    def positions(self, tokens, at):
        return self.base.positions(tokens, at)

    def prepare(self, at):
        return self.base.prepare(at)

    def embed(self, x, at):
        return self.base.embed(x, self.inner_at(at))

    def rotate(self, q, k, at):
        return self.base.rotate(q, k, self.inner_at(at))

    def bias(self, q, k, at):
        return self.base.bias(q, k, self.inner_at(at))

    def attend(self, q, k, v, bias, at):
        return self.base.attend(q, k, v, bias, self.inner_at(at))

    def advance(self, q, k, bias, mlp, at):
        return self.base.advance(q, k, bias, mlp, self.inner_at(at))


def distances(ids: Real[Tensor, "*B T"]) -> Real[Tensor, "*B T T"]:
    """r = i − j for every query i and key j; negative for later keys, which the mask hides."""
    return ids[..., :, None] - ids[..., None, :]
