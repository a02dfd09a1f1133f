"""Hidden states and attention weights of a model, read by hooks from outside: the model's own code knows nothing of them.

Shapes: B sequences of T tokens, D features of the residual stream, H heads of width d, n layers.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from bench.encodings import At, Encoding, Wrapper
from bench.encodings.attention import masked, scores
from bench.training.model import Block, Decoder

TOLERANCE = 1e-3
"""Largest difference between the attention's output and that of the recovered weights, relative to the largest output."""


class Attention(NamedTuple):
    """The attention of one layer."""

    layer: int
    weights: Float[Tensor, "B H T T"] | None
    """A_ij of query i and key j; None where the output is not A·v, nor A·v and a term without v."""
    output: Float[Tensor, "B H T d"]
    """The heads' outputs, before they are mixed."""


def replaces_attention(encoding: Encoding) -> bool:
    """Whether an encoding computes its attention itself (``Encoding.attend``)."""
    while isinstance(encoding, Wrapper) and type(encoding).attend is Wrapper.attend:
        encoding = encoding.base
    return type(encoding).attend is not Encoding.attend


def one_hot_weights(
    attend: Callable[[Tensor], Tensor], v: Float[Tensor, "B H T d"]
) -> tuple[Float[Tensor, "B H T T"], Float[Tensor, "B H T d"]]:
    """The weights of any attention, and its output for values of 0, which holds the terms without values.

    Column j of the weights is the output for values that are 1 at key j and 0 elsewhere, less the output for 0. d keys are
    asked for at a time, because an encoding may add vectors of width d.
    """
    count, width = v.shape[-2:]
    offset = attend(torch.zeros_like(v))
    eye = F.pad(torch.eye(count, dtype=v.dtype, device=v.device), (0, -count % width)).expand(*v.shape[:2], -1, -1)
    return torch.cat([attend(part) - offset for part in eye.split(width, -1)], -1)[..., :count], offset


@torch.inference_mode()
def read_attention(
    model: Decoder,
    tokens: Int[Tensor, "B T"],
    announced_length: int,
    generator: torch.Generator | None,
    use: Callable[[Attention], None],
) -> Float[Tensor, "B T D"]:
    """Call ``use`` with the attention of each layer in turn, so that no two are in memory; returns the last hidden states.

    The weights are softmax(q·k/√d + bias), or ``one_hot_weights`` of an encoding that computes its attention itself.

    Arguments:
        announced_length, generator: see ``Decoder.forward``.
    """
    encoding, attend = model.encoding, model.encoding.attend

    def reading(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, at: At) -> Tensor:
        before = at.generator.get_state() if at.generator else None

        def again(values: Tensor) -> Tensor:
            if at.generator and before is not None:
                at.generator.set_state(before)  # every call draws the same
            return attend(q, k, values, bias, at)

        if replaces_attention(encoding):
            weights, offset = one_hot_weights(again, v)
        else:
            weights, offset = masked(scores(q, k, encoding.setup), bias, at).softmax(-1), torch.zeros_like(v)
        out = again(v)
        exact = (weights @ v + offset - out).abs().max() <= TOLERANCE * out.abs().max()  # False for NaN
        use(Attention(at.layer, weights if exact else None, out))
        return out

    model.eval()
    vars(encoding)["attend"] = reading  # an instance's attribute has precedence over its class's method
    try:
        return model(tokens, announced_length, generator)
    finally:
        del vars(encoding)["attend"]


@torch.no_grad()
def read_states(
    model: Decoder, tokens: Int[Tensor, "B T"], announced_length: int, generator: torch.Generator | None
) -> Float[Tensor, "n+1 B T D"]:
    """The residual stream at the input of each layer, with what the encoding adds to it there, and after the last layer.

    These are the inputs of the norms. Arguments: see ``read_attention``.
    """
    states: list[Tensor] = []
    norms = [*(block.attention_norm for block in model.blocks if isinstance(block, Block)), model.norm]
    hooks = [norm.register_forward_pre_hook(lambda norm, inputs: states.append(inputs[0])) for norm in norms]
    model.eval()
    try:
        model(tokens, announced_length, generator)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack([state.reshape(*tokens.shape, -1) for state in states])
