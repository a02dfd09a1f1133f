"""softmax(q·k/√d + bias)·v for the many short sequences that training on a CPU core consists of.

torch's fused kernel and its softmax are made for whole vectors of 16 keys: measured at 13 keys a softmax takes 12 times as long
as at 16, and the kernel refuses a bias that is learned. Here all heads share one batched product, and keys are filled up to a
multiple of the vector width with −∞.
"""

import math
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

LANES = 16
"""Floats of the widest vector registers: keys come in multiples of it."""
SHORT = 64
"""Tokens up to which this way can be the faster one on a CPU; beyond, the fused kernel is, and makes no T × T."""
LEFT_OVER = 7
"""Keys beyond whole vectors from which on it is."""


def attention(
    q: Float[Tensor, "B H T e"],
    k: Float[Tensor, "B H T e"],
    v: Float[Tensor, "B H T d"],
    bias: Float[Tensor, "*B H T T"] | None,
    scale: float,
    causal: bool,
) -> Float[Tensor, "B H T d"]:
    """Softmax attention, by the way that is fastest at hand. A ``bias`` comes with its mask; without one ``causal`` says."""
    count = q.shape[-2]
    slow = count % LANES >= LEFT_OVER or (bias is not None and bias.requires_grad)
    if q.device.type == "cpu" and count <= SHORT and slow:
        return Short.apply(q, k, v, bias, scale, causal)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=bias is None and causal, scale=scale)


def softmax(s: Float[Tensor, "*shape T"]) -> Float[Tensor, "*shape T"]:
    """softmax over the last axis, filled up to whole vectors on the way."""
    count = s.shape[-1]
    if s.device.type != "cpu" or not fill(count):
        return s.softmax(-1)
    return F.pad(s, (0, fill(count)), value=-math.inf).softmax(-1)[..., :count]


def fill(count: int) -> int:
    """Keys to add to ``count`` for a multiple of ``LANES``."""
    return -count % LANES


@lru_cache(SHORT)
def later(count: int, dtype: torch.dtype) -> Float[Tensor, "T keys"]:
    """0 where query i sees key j, −∞ at j > i, and at the keys that fill up the vectors."""
    with torch.inference_mode(False):  # kept for whoever asks next, who may want gradients
        return torch.full((count, count + fill(count)), -math.inf, dtype=dtype).triu(1)


def stacked(x: Float[Tensor, "B H T e"], keys: int) -> Float[Tensor, "B*H keys e"]:
    """One contiguous stack of matrices, filled up with rows of zeros."""
    b, h, t, e = x.shape
    out = x.new_empty(b, h, keys, e)
    out[:, :, :t] = x
    out[:, :, t:] = 0
    return out.view(b * h, keys, e)


class Short(torch.autograd.Function):
    """Scores, softmax and values as batched products over all heads at once, with gradients written out.

    P = softmax(S), S = scale·QKᵀ + bias, O = PV; so dV = Pᵀ dO, dP = dO Vᵀ, dS = P ∘ (dP − rowsum(P ∘ dP)),
    dQ = scale·dS K, dK = scale·dSᵀ Q, and dbias is dS summed over the axes along which bias was broadcast.
    """

    @staticmethod
    def forward(ctx, q, k, v, bias, scale, causal):
        b, h, t, _ = q.shape
        keys = t + fill(t)
        q, k, v = stacked(q, t).mul_(scale), stacked(k, keys), stacked(v, keys)
        s = torch.bmm(q, k.mT)
        if bias is not None:
            s.view(b, h, t, keys).add_(F.pad(bias, (0, keys - t), value=-math.inf))
        elif causal:
            s.add_(later(t, s.dtype))
        else:
            s[..., t:] = -math.inf
        p = s.softmax(-1)
        ctx.save_for_backward(q, k, v, p)
        ctx.scale, ctx.bias_shape, ctx.heads = scale, bias.shape if bias is not None else None, h
        return torch.bmm(p, v).view(b, h, t, -1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        q, k, v, p = ctx.saved_tensors
        t, h = q.shape[1], ctx.heads
        gradient = stacked(gradient, t)

        def apart(x: Tensor) -> Tensor:
            return x.unflatten(0, (-1, h))[:, :, :t]

        dv = torch.bmm(p.mT, gradient)
        ds = torch._softmax_backward_data(torch.bmm(gradient, v.mT), p, -1, p.dtype)
        dq = torch.bmm(ds, k).mul_(ctx.scale)
        dk = torch.bmm(ds.mT, q)
        dbias = apart(ds)[..., :t].sum_to_size(ctx.bias_shape) if ctx.needs_input_grad[3] else None
        return apart(dq), apart(dk), apart(dv), dbias, None, None
