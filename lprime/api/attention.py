"""The attention of an encoding as a torch module of queries, keys and values, for models that are not of lprime."""

import copy
import math
from dataclasses import replace
from typing import NoReturn

import torch
from jaxtyping import Float, Real
from torch import Tensor, nn
from torch.nn import functional as F

from bench.encodings import At, Encoding, Setup, catalogue, hooks
from bench.encodings.attention_kernel import later_keys
from bench.plugins.registry import get_encoding
from bench.training.model import task_aware
from tasks import InputError

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
        at = At(announced, self.encoding.stage is not None and not self.training, source=refuse_input)
        if positions is None:
            positions = self.encoding.positions(torch.zeros(k.shape[0], count, dtype=torch.long, device=k.device), at)
        if self.by_row and new < count:
            return self.rows(q, k, v, replace(at, ids=positions))
        at = self.prepared(replace(at, ids=positions))
        q, k = self.encoding.rotate(F.pad(q, (0, 0, count - new, 0)), k, at)
        return self.encoding.attend(q, k, v, self.encoding.bias(q, k, at), at)[:, :, count - new :]

    def prepared(self, at: At) -> At:
        return replace(at, shared=self.encoding.prepare(at))

    def rows(self, q: Tensor, k: Tensor, v: Tensor, at: At) -> Float[Tensor, "B H T d"]:
        """The rows of the last T queries alone."""
        new, count, ids = q.shape[2], k.shape[2], at.positions
        last = replace(at, ids=ids[..., -new:])
        if "rotate" in hooks(type(self.encoding)):
            q = self.encoding.rotate(q, q, self.prepared(last))[0]
            k = self.encoding.rotate(k, k, self.prepared(at))[1]
        far = self.prepared(replace(last, drawn_distances=ids[..., -new:, None] - ids[..., None, :]))
        bias, later = self.encoding.bias(q, k, far), later_keys(count, q.device)[-new:]
        mask = ~later if bias is None else bias.masked_fill(later, -math.inf).to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1 / math.sqrt(self.setup.head_width))

    @torch.no_grad()
    def rows_suffice(self) -> bool:
        """Whether ``rows`` gives the last rows of a whole pass, tried with other weights.

        Raises:
            InputError: the encoding reads the input of the layer.
        """
        generator, tried = torch.Generator().manual_seed(0), copy.deepcopy(self).eval()
        for parameter in tried.encoding.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        size = (2, self.setup.heads, min(TRIED, self.setup.longest_tokens), self.setup.head_width)
        q, k, v = (torch.randn(size, generator=generator) for _ in range(3))
        whole, tried.by_row = tried(q, k, v), "attend" not in hooks(type(self.encoding))
        try:
            return tried.by_row and torch.allclose(tried(q[:, :, -NEW:], k, v), whole[:, :, -NEW:], atol=1e-4)
        except (RuntimeError, IndexError, ValueError):
            return False


def refuse_input() -> NoReturn:
    raise InputError("it reads the input of the layer, which a module of q, k and v does not have")


def attention(encoding: str, *, heads: int, head_width: int, train_length: int, longest: int | None = None) -> Attention:
    """The attention of an encoding, by its name or file, as a module with ``forward(q, k, v, positions=None)``.

    Arguments:
        train_length, longest: most tokens in training, and in evaluation; some encodings stretch or size tables by them.

    Raises:
        InputError: an unknown name, with the nearest match; or the encoding cannot leave the model: see ``attentions``.
    """
    cls, longest = get_encoding(str(encoding)), max(longest or 0, train_length)
    if "embed" in hooks(cls):
        fault = "it changes the residual stream before the layer"
    elif task_aware(cls) or cls.info.random:
        fault = "its position ids depend on tokens" if task_aware(cls) else "it draws random numbers in every pass"
    else:
        try:
            return Attention(cls, Setup(1, heads * head_width, heads, head_width, train_length, longest, train_length, longest))
        except InputError as error:
            fault = str(error)
    raise InputError(f"{cls.info.name} has no attention of its own to take home: {fault}")


def attentions() -> dict[str, str]:
    """Each built-in encoding, and why its attention cannot leave the model; empty if it can."""
    faults = {}
    for name in catalogue():
        try:
            attention(name, heads=2, head_width=8, train_length=TRIED // 2, longest=TRIED)
            faults[name] = ""
        except InputError as error:
            faults[name] = str(error).partition(": ")[2]
    return faults
