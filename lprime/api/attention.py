"""The attention of an encoding as a torch module of queries, keys and values, for models that are not of lprime; its hooks."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import NoReturn

import torch
from jaxtyping import Float, Real
from torch import Tensor, nn
from torch.nn import functional as F

from bench.encodings import At, Encoding, Setup
from bench.encodings import hooks as overridden
from bench.encodings.attention_kernel import later_keys
from bench.plugins.registry import get_encoding
from tasks import InputError

from .runs import references_of

TRIED, NEW = 24, 3
"""Tokens of a trial, and how many of them are new ones beside cached keys."""


class Attention(nn.Module):
    """Causal attention with an encoding, of one layer. In training the announced length is the training length, in evaluation
    the longest."""

    def __init__(self, cls: type[Encoding], setup: Setup):
        super().__init__()
        self.encoding, self.setup, self.by_row = cls.make(setup), setup, False
        self.by_row = self.rows_suffice()
        """Whether new tokens cost no more than their own rows. Otherwise a pass with cached keys computes all rows."""

    def forward(
        self,
        q: Float[Tensor, "B H T d"],
        k: Float[Tensor, "B H S d"],
        v: Float[Tensor, "B H S d"],
        positions: Real[Tensor, "*B S"] | None = None,
    ) -> Float[Tensor, "B H T d"]:
        """softmax(q·k/√d + …)·v for the last T of S tokens; in decoding, k and v are the cached ones and the new.

        Arguments:
            q, k, v: as projected; keys are cached so, since some encodings change them with the length.
            positions: ids of all S tokens; by default as the encoding counts them.
        """
        new, count = q.shape[2], k.shape[2]
        announced = self.setup.train_tokens if self.training else max(self.setup.longest_tokens, count)
        at = At(announced, self.encoding.stage is not None and not self.training, ids=positions)
        if self.by_row and new < count:
            return self.rows(q, k, v, at)
        return hooks(self.encoding, F.pad(q, (0, 0, count - new, 0)), k, v, at=at).output[:, :, count - new :]

    def prepared(self, at: At) -> At:
        return replace(at, shared=self.encoding.prepare(at))

    def rows(self, q: Tensor, k: Tensor, v: Tensor, at: At) -> Float[Tensor, "B H T d"]:
        """The rows of the last T queries alone."""
        new, count = q.shape[2], k.shape[2]
        ids = self.encoding.positions(torch.zeros_like(k[:, 0, :, 0], dtype=torch.long), at) if at.ids is None else at.ids
        last = replace(at, ids=ids[..., -new:])
        if "rotate" in overridden(type(self.encoding)):
            q = self.encoding.rotate(q, q, self.prepared(last))[0]
            k = self.encoding.rotate(k, k, self.prepared(replace(at, ids=ids)))[1]
        far = self.prepared(replace(last, drawn_distances=ids[..., -new:, None] - ids[..., None, :]))
        bias, later = self.encoding.bias(q, k, far), later_keys(count, q.device)[-new:]
        mask = ~later if bias is None else bias.masked_fill(later, -math.inf).to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1 / math.sqrt(self.setup.head_width))

    @torch.no_grad()
    def score_mod(self, count: int, device: str | torch.device = "cpu") -> Callable[..., Tensor]:
        """The bias of ``count`` tokens and the causal mask, for ``torch.nn.attention.flex_attention``, with the weights of now.

        Raises:
            InputError: the module is in training, for which the bias has no gradient; or the encoding does more than adding a
                bias that depends on positions alone.
        """
        if self.training and any(parameter.requires_grad for parameter in self.parameters()):
            raise InputError("score_mod is for evaluation, and trains no bias: call eval() before it, or forward to train")
        at = At(max(self.setup.longest_tokens, count), self.encoding.stage is not None)
        q = torch.ones(1, self.setup.heads, count, self.setup.head_width, device=device)
        one, other = (hooks(self.with_noise().encoding, x, x, at=at).bias for x in (q, -2 * q.cumsum(2)))
        if {"rotate", "attend"} & {*overridden(type(self.encoding))} or one is None or not torch.equal(one, other):
            raise InputError(f"{self.encoding.info.name} is not a bias that depends on positions alone")
        table = hooks(self.encoding, q, q, at=at).bias.expand(1, self.setup.heads, count, count)[0]
        row, places = table[:, -1].flip(-1), torch.arange(count, device=device)  # by distance
        if torch.allclose(row[:, (places[:, None] - places).abs()].tril(), table.tril()):
            return lambda score, b, h, i, j: torch.where(i >= j, score + row[h, (i - j).abs()], -math.inf)
        return lambda score, b, h, i, j: torch.where(i >= j, score + table[h, i, j], -math.inf)

    @torch.no_grad()
    def with_noise(self) -> "Attention":
        """A copy with other weights: zeros, with which many begin, hide what they do."""
        tried, generator = copy.deepcopy(self).eval(), torch.Generator().manual_seed(0)
        for parameter in tried.encoding.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator).to(parameter))
        return tried

    @torch.no_grad()
    def rows_suffice(self) -> bool:
        """Whether ``rows`` gives the last rows of a whole pass.

        Raises:
            InputError: the encoding reads the input of the layer.
        """
        generator, tried = torch.Generator().manual_seed(0), self.with_noise()
        size = (2, self.setup.heads, min(TRIED, self.setup.longest_tokens), self.setup.head_width)
        q, k, v = (torch.randn(size, generator=generator) for _ in range(3))
        whole, tried.by_row = tried(q, k, v), "attend" not in overridden(type(self.encoding))
        try:
            return tried.by_row and torch.allclose(tried(q[:, :, -NEW:], k, v), whole[:, :, -NEW:], atol=1e-4)
        except (RuntimeError, IndexError, ValueError):
            return False


def hooks(
    encoding: str | Encoding, q: Tensor, k: Tensor, v: Tensor | None = None, x: Tensor | None = None, at: At | None = None
) -> SimpleNamespace:
    """Run the hooks of one layer, to compare an encoding with its authors' code.

    Arguments:
        encoding: a name or file; or an instance, such as ``lprime.attention(…).encoding``, with weights of yours.
        q, k, v: as projected, [B, H, T, d]; v is by default q.
        x: the input of the layer, [B, T, D], for encodings that change or read it; hooks get it as ``at.h``, without a norm.
        at: by default as in training at T tokens, with random numbers of seed 0.

    Returns:
        ``x`` as ``embed`` returns it, rotated ``q`` and ``k`` [B, H, T, e], ``bias`` or None, and ``output`` [B, H, T, d].

    Raises:
        InputError: an unknown name, or the encoding reads x and there is none.
    """
    _, heads, count, width = k.shape
    if not isinstance(encoding, Encoding):
        setup = Setup(1, heads * width, heads, width, count, count, count, count)
        encoding = get_encoding(*references_of(encoding)).make(setup)
    at = at or At(count, generator=torch.Generator(q.device).manual_seed(0))
    at = replace(at, source=lambda: refuse_input() if x is None else x)
    at = replace(
        at, ids=encoding.positions(torch.zeros_like(k[:, 0, :, 0], dtype=torch.long), at) if at.ids is None else at.ids
    )
    at = replace(at, shared=encoding.prepare(at))
    rotated, keys = encoding.rotate(q, k, at)
    bias = encoding.bias(rotated, keys, at)
    output = encoding.attend(rotated, keys, q if v is None else v, bias, at)
    return SimpleNamespace(x=x if x is None else encoding.embed(x, at), q=rotated, k=keys, bias=bias, output=output)


def refuse_input() -> NoReturn:
    raise InputError("it reads the input of the layer, which a module of q, k and v does not have")


def attention(encoding: str, *, heads: int, head_width: int, train_length: int, longest: int | None = None) -> Attention:
    """The attention of an encoding, by its name or file, as a module with ``forward(q, k, v, positions=None)``.

    Arguments:
        train_length, longest: most tokens in training, and in evaluation; some encodings stretch or size tables by them.

    Raises:
        InputError: an unknown name, with the nearest match; or the encoding cannot leave the model.
    """
    cls, longest = get_encoding(*references_of(encoding)), max(longest or 0, train_length)
    if "embed" in overridden(cls):
        fault = "it changes the residual stream before the layer"
    elif (aware := cls.info.ranking == "task-aware") or cls.info.random:
        fault = "its position ids depend on tokens" if aware else "it draws random numbers in every pass"
    else:
        try:
            return Attention(cls, Setup(1, heads * head_width, heads, head_width, train_length, longest, train_length, longest))
        except InputError as error:
            fault = str(error)
    raise InputError(f"{cls.info.name} has no attention of its own to take home: {fault}")
