"""Building blocks for encodings that replace the attention: ``masked_softmax(scores + …, bias)·v``."""

import math
from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor

from .attention_kernel import later_keys
from .base import At, Setup


def scores(q: Float[Tensor, "B H T e"], k: Float[Tensor, "B H T e"], setup: Setup) -> Float[Tensor, "B H T T"]:
    """q_i·k_j/√d for every pair, later keys included. d is the model's head width, even if q and k are wider."""
    return (q / math.sqrt(setup.head_width)) @ k.mT


def masked(s: Float[Tensor, "B H T T"], bias: Float[Tensor, "*B H T T"] | None, at: At) -> Float[Tensor, "B H T T"]:
    """s + bias, with −∞ at keys j > i unless the causal mask is off."""
    s = s if bias is None else s + bias
    return s.masked_fill(later_keys(s.shape[-1], s.device), float("-inf")) if at.causal else s


def masked_softmax(s: Float[Tensor, "B H T T"], bias: Float[Tensor, "*B H T T"] | None, at: At) -> Float[Tensor, "B H T T"]:
    """Softmax over the visible keys of s + bias."""
    return masked(s, bias, at).softmax(-1)


def at_least_float32(x: Tensor) -> Tensor:
    """Convert bf16 and fp16 to float32, for sums over many tokens that bf16 would round away."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def without_autocast(x: Tensor) -> AbstractContextManager:
    """A context in which operations keep the dtype of their arguments, on any device."""
    device = x.device.type
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()
