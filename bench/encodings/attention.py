"""The pieces of softmax attention, for encodings that replace it whole: ``softmax_j(scores + bias)·v`` with T × T in sight."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from .base import At, Setup


def scores(q: Float[Tensor, "B H T e"], k: Float[Tensor, "B H T e"], setup: Setup) -> Float[Tensor, "B H T T"]:
    """q_i·k_j/√d for every pair, later keys included; d is the model's, even where q and k are wider."""
    return q @ k.mT / math.sqrt(setup.head_width)


def hidden(s: Float[Tensor, "B H T T"], at: At) -> Bool[Tensor, "T T"]:
    """True where key j may not be seen by query i: j > i; nowhere if the mask is off."""
    everywhere = torch.ones(s.shape[-2:], dtype=torch.bool, device=s.device)
    return everywhere.triu(1) if at.causal else ~everywhere


def masked_softmax(s: Float[Tensor, "B H T T"], bias: Float[Tensor, "*B H T T"] | None, at: At) -> Float[Tensor, "B H T T"]:
    """softmax over keys of s + bias, in float32 at least. The mask comes with ``bias``, or is put here if there is none."""
    s = s.masked_fill(hidden(s, at), float("-inf")) if bias is None else s + bias
    return s.float().softmax(-1) if s.dtype == torch.bfloat16 else s.softmax(-1)
