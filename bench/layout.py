"""Between rows and rectangles: each way one copy, and one back for the gradient."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

Split = Callable[[Tensor], tuple[Tensor, ...]]


@dataclass(frozen=True)
class Layout:
    """Where N rows stand in rectangles of P cells together; the cells of all rectangles are counted one after the other."""

    shapes: tuple[tuple[int, int], ...]
    """B, T of each rectangle."""
    row_of: Int[Tensor, " P"] | None = None
    """The row of each cell; that of the example's last token where there is only padding. None: rows are cells."""
    cell_of: Int[Tensor, " N"] | None = None
    """The cell of each row."""

    def to(self, device: torch.device) -> "Layout":
        if self.row_of is None or self.cell_of is None:
            return self
        return Layout(self.shapes, *(t.to(device, non_blocking=True) for t in (self.row_of, self.cell_of)))

    def cut(self, cells: Float[Tensor, "P W"]) -> list[Float[Tensor, "B T W"]]:
        """Views of the rectangles."""
        parts = cells.split([b * t for b, t in self.shapes])
        return [part.view(b, t, -1) for part, (b, t) in zip(parts, self.shapes, strict=True)]

    def spread(self, rows: Float[Tensor, "N W"], split: Split = lambda x: (x,)) -> list[tuple[Tensor, ...]]:
        """Rows as rectangles [B, T, W], each taken apart by ``split`` into views of it."""
        views = Spread.apply(rows, self, split)
        each = len(views) // len(self.shapes)
        return [views[n : n + each] for n in range(0, len(views), each)]

    def collect(
        self, parts: list[Float[Tensor, "B T W"]], rows: Int[Tensor, " M"] | None = None
    ) -> Float[Tensor, "N W"] | Float[Tensor, "M W"]:
        """Rectangles as rows; some of the rows if ``rows`` says which."""
        return Collect.apply(self, rows, *parts)


class Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, layout, split):
        ctx.layout, ctx.split, ctx.width = layout, split, rows.shape[1]
        cells = rows if layout.row_of is None else rows.index_select(0, layout.row_of)
        return tuple(view for part in layout.cut(cells) for view in split(part))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, *gradients):
        layout, given = ctx.layout, next(g for g in gradients if g is not None)
        cells = given.new_empty(sum(b * t for b, t in layout.shapes), ctx.width)
        views = (view for part in layout.cut(cells) for view in ctx.split(part))
        for view, gradient in zip(views, gradients, strict=True):
            view.zero_() if gradient is None else view.copy_(gradient)
        # No row's gradient comes from padding: nothing that counts looks there.
        return cells if layout.cell_of is None else cells.index_select(0, layout.cell_of), None, None


class Collect(torch.autograd.Function):
    @staticmethod
    def forward(ctx, layout, rows, *parts):
        cells = torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])
        index = layout.cell_of if rows is None else rows if layout.cell_of is None else layout.cell_of[rows]
        ctx.layout, ctx.index, ctx.count = layout, index, len(cells)
        return cells if index is None else cells.index_select(0, index)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        if ctx.index is not None:
            gradient = gradient.new_zeros(ctx.count, gradient.shape[1]).index_copy_(0, ctx.index, gradient)
        return None, None, *ctx.layout.cut(gradient)
