"""Linear maps of many rows, by oneDNN on a CPU.

torch multiplies float32 matrices with MKL, which uses 256-bit vectors on processors that are not Intel's. oneDNN, which torch also
contains, uses the widest vectors of any processor: on one with AVX-512 that is twice as fast. It compiles a kernel for every
number of rows and keeps the last 1,024, so a training step rounds its numbers of rows up: see ``bench.training.batches``.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class Linear(nn.Linear):
    """``torch.nn.Linear`` without a bias."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x: Float[Tensor, "N I"]) -> Float[Tensor, "N O"]:
        usable = x.device.type == "cpu" and x.dtype == torch.float32 and torch.backends.mkldnn.is_available()
        if usable and not torch.is_autocast_enabled("cpu"):
            return OneDNNLinear.apply(x, self.weight)
        return F.linear(x, self.weight)


def product(a: Float[Tensor, "N I"], b: Float[Tensor, "O I"]) -> Float[Tensor, "N O"]:
    """a·bᵀ; both may be transposed views."""
    return torch.ops.mkldnn._linear_pointwise(a, b, None, "none", [], "")


class OneDNNLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return product(x, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        dx = product(gradient, weight.t()) if ctx.needs_input_grad[0] else None
        # The kernel is faster with the smaller side as rows.
        wide = weight.shape[0] > weight.shape[1]
        return dx, product(x.t(), gradient.t()).t() if wide else product(gradient.t(), x.t())
