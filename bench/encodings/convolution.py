"""A causal convolution over tokens of a low-rank projection, separate for each channel."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def low_rank_convolution(
    h: Float[Tensor, "B T D"], down: Float[Tensor, "rank D"], up: Float[Tensor, "C rank"], taps: Float[Tensor, "C taps"]
) -> Float[Tensor, "B T C"]:
    """Σ_m taps_cm·(up·down·h)_c of tokens t − (taps − 1) … t, in one product; 0 before the first token."""
    window = Window.apply(F.linear(h, down), taps.shape[1])
    return F.linear(window, (taps.unsqueeze(2) * up.unsqueeze(1)).flatten(1))


class Window(torch.autograd.Function):
    """Features of the last ``taps`` tokens, the present one last: [B, T, W] → [B, T, taps·W]."""

    @staticmethod
    def forward(ctx, x, taps):
        (b, t, width), ctx.taps = x.shape, taps
        out = x.new_zeros(b, t, taps, width)
        for m in range(taps):
            by = min(taps - 1 - m, t)
            out[:, by:, m] = x[:, : t - by]
        return out.view(b, t, -1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        b, t, _ = gradient.shape
        gradient = gradient.view(b, t, ctx.taps, -1)
        out = gradient[:, :, -1].clone()
        for m in range(ctx.taps - 1):
            by = min(ctx.taps - 1 - m, t)
            out[:, : t - by] += gradient[:, by:, m]
        return out, None
