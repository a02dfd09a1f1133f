"""Hidden states and attention weights of a model, read by hooks from outside: the model's own code knows nothing of them.

Shapes: B sequences of T tokens, D features of the residual stream, H heads of width d, n layers.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bench.encodings import At, Encoding, Wrapper
from bench.encodings.attention import masked_softmax, scores
from bench.training.model import Block, Decoder


class Attention(NamedTuple):
    """The attention of one layer."""

    layer: int
    weights: Float[Tensor, "B H T T"] | None
    """A_ij of query i and key j, softmax(q·k/√d + bias); None if the encoding computes its attention itself."""
    output: Float[Tensor, "B H T d"]
    """The heads' outputs, before they are mixed."""


def replaces_attention(encoding: Encoding) -> bool:
    """Whether an encoding computes its attention itself (``Encoding.attend``)."""
    while isinstance(encoding, Wrapper) and type(encoding).attend is Wrapper.attend:
        encoding = encoding.base
    return type(encoding).attend is not Encoding.attend


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
        out = attend(q, k, v, bias, at)
        weights = None if replaces_attention(encoding) else masked_softmax(scores(q, k, encoding.setup), bias, at)
        use(Attention(at.layer, weights, out))
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
