"""Hidden states and attention weights of a model, read by hooks from outside: the model's own code knows nothing of them.

Shapes: B sequences of T tokens, D features of the residual stream, H heads of width d, n layers.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from bench.encodings import At, Encoding, Wrapper
from bench.encodings.attention import masked, scores
from bench.training.model import Decoder

TOLERANCE = 1e-3
"""Largest difference between the attention's output and that of the recovered weights, relative to the largest output."""


@dataclass(frozen=True)
class Attention:
    """The attention of one layer."""

    layer: int
    weights: Float[Tensor, "B H T T"] | None
    """A_ij of query i and key j; None where the output is not A·v, nor A·v and a term without v."""
    logits: Float[Tensor, "B H T T"] | None
    """Their logarithms up to a constant of each row, −∞ where a key gets nothing."""
    output: Float[Tensor, "B H T d"]
    """The heads' outputs, before they are mixed."""


def replaces_attention(encoding: Encoding) -> bool:
    """Whether an encoding computes its attention itself (``Encoding.attend``)."""
    while isinstance(encoding, Wrapper) and type(encoding).attend is Wrapper.attend:
        encoding = encoding.base
    return type(encoding).attend is not Encoding.attend


def recover(
    attend: Callable[[Tensor], Tensor], q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At, encoding: Encoding
):
    """Output, weights and logits of one call of an encoding's ``attend``; no weights where it has none.

    By default the weights are softmax(q·k/√d + bias). Of an encoding that replaces the attention, column j of the weights
    is the output for values that are 1 at key j and 0 elsewhere, less the output for values of 0, which has the terms
    without values.

    Arguments:
        attend: the call, as a function of the values.
    """
    if replaces_attention(encoding):
        offset, weights = attend(torch.zeros_like(v)), one_hot_weights(attend, v)
        logits = weights.clamp_min(0).log()
    else:
        logits = masked(scores(q, k, encoding.setup), bias, at)
        weights, offset = logits.softmax(-1), torch.zeros_like(v)
    out = attend(v)
    exact = (weights @ v + offset - out).abs().max() <= TOLERANCE * out.abs().max()  # False for NaN
    return (out, weights, logits) if exact else (out, None, None)


def one_hot_weights(attend: Callable[[Tensor], Tensor], v: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T T"]:
    """The output for one-hot values, less that for zeros.

    For all keys at once, or d keys at a time where ``attend`` adds vectors of width d.
    """
    count, width = v.shape[-2:]
    eye = torch.eye(count, dtype=v.dtype, device=v.device).expand(*v.shape[:2], -1, -1)
    try:
        return attend(eye) - attend(torch.zeros_like(eye))
    except RuntimeError:
        padded, offset = F.pad(eye, (0, -count % width)), attend(torch.zeros_like(v))
        return torch.cat([attend(part) - offset for part in padded.split(width, -1)], -1)[..., :count]


@contextmanager
def replaced(encoding: Encoding, **hooks: Callable[..., Any]) -> Iterator[None]:
    """Replace hooks of one encoding while the block runs."""
    vars(encoding).update(hooks)  # an instance's attribute has precedence over its class's method
    try:
        yield
    finally:
        for name in hooks:
            del vars(encoding)[name]


@torch.inference_mode()
def read_attention(
    model: Decoder,
    tokens: Int[Tensor, "B T"],
    announced_length: int,
    generator: torch.Generator | None,
    use: Callable[[Attention], None],
) -> Float[Tensor, "B T D"]:
    """Call ``use`` with the attention of each layer in turn, so that no two are in memory; returns the last hidden states.

    Arguments:
        announced_length, generator: see ``Decoder.forward``.
    """
    encoding, attend = model.encoding, model.encoding.attend

    def reading(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Tensor:
        source = at.generator
        before = source.get_state() if source else None

        def again(values: Tensor) -> Tensor:
            if source and before is not None:
                source.set_state(before)  # every call draws the same
            return attend(q, k, values, bias, at)

        out, weights, logits = recover(again, q, k, v, bias, at, encoding)
        use(Attention(at.layer, weights, logits, out))
        return out

    model.eval()
    with replaced(encoding, attend=reading):
        return model(tokens, announced_length, generator)


@torch.inference_mode()
def read_states(
    model: Decoder, tokens: Int[Tensor, "B T"], announced_length: int, generator: torch.Generator | None
) -> Float[Tensor, "n+1 B T D"]:
    """The residual stream at the input of each layer, with what the encoding adds to it there, and after the last layer.

    Arguments:
        announced_length, generator: see ``Decoder.forward``.
    """
    states: list[Tensor] = []
    encoding, embed = model.encoding, model.encoding.embed

    def at_input(block: torch.nn.Module, arguments: tuple) -> None:
        states.append(arguments[0])

    def after_embed(x: Tensor, at: At) -> Tensor:
        states[-1] = embed(x, at)
        return states[-1]

    def at_end(block: torch.nn.Module, arguments: tuple, out: Tensor) -> None:
        states.append(out)

    hooks = [block.register_forward_pre_hook(at_input) for block in model.blocks]
    hooks.append(model.blocks[-1].register_forward_hook(at_end))
    model.eval()
    try:
        with replaced(encoding, embed=after_embed):
            model(tokens, announced_length, generator)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack([state.reshape(*tokens.shape, -1) for state in states])
