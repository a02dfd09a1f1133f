"""Conversion between packed rows (all tokens of a batch, without padding) and padded buckets, one copy each way.

Shape legend: N packed rows, of which M predict an answer token; P cells in all buckets together; B sequences of T
cells in a bucket; W features.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

Split = Callable[[Tensor], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Layout:
    """Which packed row is in which cell of the padded buckets."""

    shapes: tuple[tuple[int, int], ...]
    """B, T of each bucket."""
    row_of: Int[Tensor, " P"] | None = None
    """The row of each cell; for a padding cell, the last row of its sequence. None: rows and cells are the same."""
    cell_of: Int[Tensor, " N"] | None = None
    """The cell of each row."""

    def buckets(self, cells: Float[Tensor, "P W"]) -> list[Float[Tensor, "B T W"]]:
        """Views of the cells, one per bucket."""
        parts = cells.split([b * t for b, t in self.shapes])
        return [part.view(b, t, -1) for part, (b, t) in zip(parts, self.shapes, strict=True)]

    def pad(self, rows: Float[Tensor, "N W"], split: Split = lambda x: (x,)) -> list[tuple[Tensor, ...]]:
        """Packed rows to buckets [B, T, W], each split by ``split`` into views of itself."""
        views = Pad.apply(rows, self, split)
        each = len(views) // len(self.shapes)
        return [views[n : n + each] for n in range(0, len(views), each)]

    def unpad(
        self, buckets: list[Float[Tensor, "B T W"]], rows: Int[Tensor, " M"] | None = None
    ) -> Float[Tensor, "N W"] | Float[Tensor, "M W"]:
        """Buckets to packed rows: all of them, or those with the given indices."""
        return Unpad.apply(self, rows, *buckets)


class Pad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, layout, split):
        ctx.layout, ctx.split, ctx.width = layout, split, rows.shape[1]
        cells = rows if layout.row_of is None else rows.index_select(0, layout.row_of)
        return tuple(view for bucket in layout.buckets(cells) for view in split(bucket))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *gradients):
        layout, first = ctx.layout, next(g for g in gradients if g is not None)
        cells = first.new_empty(sum(b * t for b, t in layout.shapes), ctx.width)
        views = (view for bucket in layout.buckets(cells) for view in ctx.split(bucket))
        for view, gradient in zip(views, gradients, strict=True):
            view.zero_() if gradient is None else view.copy_(gradient)
        # Padding has no gradient: no row that counts attends to it.
        return cells if layout.cell_of is None else cells.index_select(0, layout.cell_of), None, None


class Unpad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layout, rows, *buckets):
        flat = [bucket.reshape(-1, bucket.shape[-1]) for bucket in buckets]
        cells = flat[0] if len(flat) == 1 else torch.cat(flat)
        index = layout.cell_of if rows is None else rows if layout.cell_of is None else layout.cell_of[rows]
        ctx.layout, ctx.index, ctx.count = layout, index, len(cells)
        return cells if index is None else cells.index_select(0, index)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        if ctx.index is not None:
            gradient = gradient.new_zeros(ctx.count, gradient.shape[1]).index_copy_(0, ctx.index, gradient)
        return None, None, *ctx.layout.buckets(gradient)
