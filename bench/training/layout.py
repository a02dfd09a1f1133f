"""Conversion between packed rows (all tokens of a batch, without padding) and the padded batch, one copy each way.

Shape legend: N packed rows, of which M predict an answer token; B sequences of T cells; W features.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """Which packed row is in which cell of the padded batch."""

    shape: tuple[int, int]
    """B, T."""
    row_of: Int[Tensor, " B*T"] | None = None
    """The row of each cell; for a padding cell, the last row of its sequence. None: rows and cells are the same."""
    cell_of: Int[Tensor, " N"] | None = None
    """The cell of each row."""

    def pad(self, rows: Float[Tensor, "N W"]) -> Float[Tensor, "B T W"]:
        """Packed rows to the padded batch."""
        cells = rows if self.row_of is None or self.cell_of is None else Gather.apply(rows, self.row_of, self.cell_of)
        return cells.view(*self.shape, -1)

    def unpad(
        self, padded: Float[Tensor, "B T W"], rows: Int[Tensor, " M"] | None = None
    ) -> Float[Tensor, "N W"] | Float[Tensor, "M W"]:
        """The padded batch to packed rows: all of them, or those with the given indices."""
        cells = padded.flatten(0, 1)
        index = self.cell_of if rows is None else rows if self.cell_of is None else self.cell_of[rows]
        return cells if index is None else Select.apply(cells, index)


class Gather(torch.autograd.Function):
    """The row of each cell. Only the gradient of a row's own cell counts: nothing that counts attends to padding."""

    @staticmethod
    def forward(ctx, rows, row_of, cell_of):
        ctx.cell_of = cell_of
        return rows.index_select(0, row_of)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return gradient.index_select(0, ctx.cell_of), None, None


class Select(torch.autograd.Function):
    """``index_select`` with a faster gradient: an index is given twice only if its gradient is the same or zero."""

    @staticmethod
    def forward(ctx, cells, index):
        ctx.index, ctx.count = index, len(cells)
        return cells.index_select(0, index)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return gradient.new_zeros(ctx.count, gradient.shape[1]).index_copy_(0, ctx.index, gradient), None
