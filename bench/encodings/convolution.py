"""A causal convolution over tokens of a low-rank projection, separate for each channel."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def low_rank_convolution(
    h: Float[Tensor, "B T D"], down: Float[Tensor, "rank D"], up: Float[Tensor, "C rank"], taps: Float[Tensor, "C taps"]
) -> Float[Tensor, "B T C"]:
    """Σ_m taps_cm·(up·down·h)_c of tokens t − (taps − 1) … t, in one product; 0 before the first token."""
    x, count = F.linear(h, down), taps.shape[1]
    window = torch.cat([F.pad(x, (0, 0, count - 1 - m, 0))[:, : x.shape[1]] for m in range(count)], -1)
    return F.linear(window, (taps.unsqueeze(2) * up.unsqueeze(1)).flatten(1))
