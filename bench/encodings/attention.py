"""The pieces of softmax attention, for encodings that replace it whole: ``masked_softmax(scores + …, bias)·v``."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .base import At, Setup
from .kernel import softmax


def scores(q: Float[Tensor, "B H T e"], k: Float[Tensor, "B H T e"], setup: Setup) -> Float[Tensor, "B H T T"]:
    """q_i·k_j/√d for every pair, later keys included; d is the model's, even where q and k are wider."""
    return q @ k.mT / math.sqrt(setup.head_width)


def hidden(s: Float[Tensor, "B H T T"], at: At) -> Bool[Tensor, "T T"]:
    """True where query i may not see key j: at j > i; nowhere if the mask is off."""
    everywhere = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device)
    return everywhere.triu(1) if at.causal else ~everywhere


def masked_softmax(s: Float[Tensor, "B H T T"], bias: Float[Tensor, "*B H T T"] | None, at: At) -> Float[Tensor, "B H T T"]:
    """softmax over keys of s + bias. The mask comes with ``bias``; without one it is put here."""
    return softmax(s.masked_fill(hidden(s, at), float("-inf")) if bias is None else s + bias)


def wide(x: Tensor) -> Tensor:
    """In float32 at least: for sums over many tokens, whose terms bf16 would round away."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
