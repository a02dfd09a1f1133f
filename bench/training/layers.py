"""Embeddings, linear maps and layer norms of many rows, each fast on its device.

On a CPU, torch multiplies float32 matrices with MKL, which uses 256-bit vectors on processors that are not from Intel. oneDNN,
also in torch, uses the widest vectors of any processor: with AVX-512 it is twice as fast. It compiles a kernel for every number
of rows and keeps the last 1,024, so a training step rounds its numbers of rows up: see ``bench.training.batches``.

On a GPU a step is hundreds of short kernels. Here a product writes float32 itself where autocast would convert it in another
kernel, and gradients of weights are computed on a second stream, see ``bench.training.side_stream``.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from .side_stream import has_side_stream, on_side_stream

ONEDNN = torch.backends.mkldnn.is_available()


class Embedding(nn.Embedding):
    """``torch.nn.Embedding``, with a gradient on a GPU that is the same in every call."""

    def forward(self, ids: Int[Tensor, " N"]) -> Float[Tensor, "N D"]:
        return super().forward(ids) if ids.device.type == "cpu" else RepeatableEmbedding.apply(ids, self.weight)


class RepeatableEmbedding(torch.autograd.Function):
    """An embedding whose gradient is a product with one-hot rows, for a small vocabulary.

    On a GPU torch sorts the ids instead. That takes longer, and the sums of thousands of rows differ from call to call.
    """

    @staticmethod
    def forward(ctx, ids, weight):
        ctx.save_for_backward(ids)
        ctx.symbols = len(weight)
        return F.embedding(ids, weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (ids,) = ctx.saved_tensors
        one_hot = ids == torch.arange(ctx.symbols, device=ids.device)[:, None]
        return None, one_hot.to(gradient.dtype) @ gradient


class Linear(nn.Linear):
    """``torch.nn.Linear`` without a bias."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x: Float[Tensor, "N I"]) -> Float[Tensor, "N O"]:
        device = x.device.type
        if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            return LowPrecisionLinear.apply(x, self.weight, torch.get_autocast_dtype(device))
        if ONEDNN and device == "cpu" and x.dtype == torch.float32:
            return OneDNNLinear.apply(x, self.weight)
        return F.linear(x, self.weight)


class LowPrecisionLinear(torch.autograd.Function):
    """Multiplies in autocast's dtype, and writes gradients directly in the dtypes of x and the weight."""

    @staticmethod
    def forward(ctx, x, weight, dtype):
        ctx.x_dtype = x.dtype
        low_x, low_weight = x.to(dtype), weight.to(dtype)
        ctx.save_for_backward(low_x, weight, low_weight)
        return F.linear(low_x, low_weight)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        x, weight, low_weight = ctx.saved_tensors
        with on_side_stream(weight, gradient, x):
            dweight = product_in(weight.dtype, gradient.t(), x)
        return product_in(ctx.x_dtype, gradient, low_weight) if ctx.needs_input_grad[0] else None, dweight, None


def product_in(dtype: torch.dtype, a: Float[Tensor, "N K"], b: Float[Tensor, "K M"]) -> Float[Tensor, "N M"]:
    """``a @ b`` with the result in ``dtype``, not rounded to the inputs' dtype first."""
    return torch.mm(a, b, out_dtype=dtype) if a.device.type == "cuda" else a.to(dtype) @ b.to(dtype)


class LayerNorm(nn.LayerNorm):
    """``torch.nn.LayerNorm``, with its parameters' gradients on the second stream where there is one."""

    def forward(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
        if has_side_stream():
            return RecordedLayerNorm.apply(x.to(self.weight.dtype), self.weight, self.bias, self.eps)
        return super().forward(x)


class RecordedLayerNorm(torch.autograd.Function):
    """A layer norm for recordings. Torch's kernel for the parameters' gradients leaves most of a large GPU to others."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps):
        out, mean, inverse_deviation = torch.native_layer_norm(x, weight.shape, weight, bias, eps)
        ctx.save_for_backward(x, mean, inverse_deviation, weight, bias)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        x, *saved = ctx.saved_tensors
        weight = saved[2]

        def gradients(*wanted: bool) -> tuple[Tensor, ...]:
            return torch.ops.aten.native_layer_norm_backward(gradient, x, weight.shape, *saved, wanted)

        with on_side_stream(weight, gradient, x, *saved):
            _, dweight, dbias = gradients(False, True, True)
        return gradients(True, False, False)[0], dweight, dbias, None


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
