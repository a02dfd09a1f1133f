"""GELU on a CPU with a bounded number of compiled kernels.

oneDNN, which torch uses for GELU, compiles a kernel for every shape and keeps the last 1,024. A training step has as many rows
as its examples have tokens, so on long sequences almost every step compiled kernels. Each consists of hundreds of small
allocations that stay between the large freed ones, so the heap grew from 0.4 to more than 2 GB. Here a model uses at most
``MOST_SIZES`` numbers of rows directly; with any other, rows are passed as two overlapping parts of one of few sizes. Every
element is computed by the same instructions, so the values are the same, bit for bit.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

MOST_SIZES = 192
"""Numbers of rows with their own kernels, for each model; they save short steps the cost of parts, 1 to 3 % of a step."""
STEP = 64
"""Row counts that are passed in parts are rounded up to a multiple of this; fewer rows than this are computed twice."""


def gelu(x: Float[Tensor, "N W"], sizes: set[int]) -> Float[Tensor, "N W"]:
    """x·Φ(x), the same values as ``torch.nn.functional.gelu``.

    Arguments:
        sizes: numbers of rows with their own kernels so far; changed by the call.
    """
    rows = len(x)
    if rows not in sizes and x.device.type == "cpu" and x.dtype == torch.float32 and rows >= STEP:
        if len(sizes) >= MOST_SIZES:
            return PartedGelu.apply(x)
        sizes.add(rows)
    return F.gelu(x)


def parts(count: int) -> tuple[slice, slice]:
    """Two parts of equal size that cover ``count`` rows, at least ``STEP``: the first and the last."""
    size = STEP // 2 * -(-count // STEP)
    return slice(0, size), slice(count - size, count)


class PartedGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        for part in parts(len(x)):
            torch.ops.aten.gelu.out(x[part], out=out[part])
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        for part in parts(len(x)):
            torch.ops.aten.gelu_backward.grad_input(gradient[part], x[part], grad_input=out[part])
        return out
