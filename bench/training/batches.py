"""Examples as tensors, for training and evaluation: input tokens, target tokens, and the rows that predict them.

The model works on packed rows: the tokens of all examples, one after the other, without padding. Attention needs a rectangle,
so a ``Layout`` maps rows to the cells of a padded batch, with one copy each way.

Shape legend: N packed rows, of which M predict an answer token; B sequences of T cells; W features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tasks import PAD, Examples

IGNORED = -100
"""Target of a row that does not count (``ignore_index`` of ``torch.nn.functional.cross_entropy``)."""
EIGHTHS = 8
"""Numbers of rows of ``few_shapes_batch`` are multiples of this part of a full batch's."""


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


@dataclass(frozen=True)
class Batch:
    """Examples in their order, padded. M packed rows predict an answer token."""

    tokens: Int[Tensor, "B T"]
    layout: Layout
    target_rows: Int[Tensor, " M"]
    """Rows whose next token is a target: from ``<sep>`` to the token before ``<eos>``; then filling, row 0."""
    targets: Int[Tensor, " M"]
    """The next token of each target row, or ``IGNORED``."""
    example_of: Int[Tensor, " m"]
    """The example of each target row that counts; always on the CPU."""
    memory: Int[Tensor, " numbers"] | None = None
    """Of which all other tensors but ``example_of`` are views, in the order of ``tensors``; None: each has its own memory."""

    def tensors(self) -> tuple[Tensor, ...]:
        """All that the model reads; the two of the layout, last, only if there is padding."""
        cells = (part for part in (self.layout.row_of, self.layout.cell_of) if part is not None)
        return self.tokens, self.target_rows, self.targets, *cells

    def with_tensors(self, tensors: Sequence[Tensor]) -> "Batch":
        """This batch with others of the same shapes."""
        tokens, target_rows, targets, *cells = tensors
        return Batch(tokens, Layout(self.layout.shape, *cells), target_rows, targets, self.example_of)

    def to(self, device: torch.device) -> "Batch":
        return self.with_tensors([part.to(device, non_blocking=True) for part in self.tensors()])

    def within(self, memory: Int[Tensor, " numbers"]) -> "Batch":
        """This batch with tensors that are views of a vector, which contains their values."""
        shapes = [part.shape for part in self.tensors()]
        parts = memory.split([shape.numel() for shape in shapes])
        views = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        return replace(self.with_tensors(views), memory=memory)


def as_batch(examples: Examples) -> Batch:
    """Batch of examples, as wide as the longest; every answer token and ``<eos>`` is a target."""
    return padded_batch(examples, int(examples.sizes.max()))


def few_shapes_batch(examples: Examples, width: int, answer: int, pinned: bool = False) -> Batch:
    """Batch with few different shapes, so that a CUDA graph recorded for one serves many steps.

    The numbers of rows and of target rows are rounded up to eighths of those of examples that fill the batch. Further rows do
    not count: they are copies of a padding cell, which gets no gradient, and targets ``IGNORED``. Where lengths are uniform,
    half of the batch is padding, and most steps of a task have one to three shapes.

    Arguments:
        width: tokens per example, at least those of the longest.
        answer: tokens of the longest answer including ``<eos>``.
        pinned: in memory from which a GPU copies while the CPU goes on.
    """
    count = len(examples)
    rows = rounded_up(int(examples.sizes.sum()), count * width)
    batch = padded_batch(examples, width, rows, rounded_up(int(examples.targets.sum()), count * answer))
    numbers = [part.flatten() for part in batch.tensors()]
    memory = torch.empty(sum(map(len, numbers)), dtype=torch.int64, pin_memory=pinned)
    return batch.within(torch.cat(numbers, out=memory))


def padded_batch(examples: Examples, width: int, rows: int = 0, targets: int = 0) -> Batch:
    """Batch of a given width, filled up to at least so many packed rows and target rows."""
    count, sizes = len(examples), examples.sizes
    tokens = np.full((count, width), PAD, np.int64)
    tokens[:, : examples.tokens.shape[1]] = examples.tokens[:, :width]
    column = np.arange(width)
    inside = column < sizes[:, None]
    example_of, target_column = np.nonzero(inside & (column >= examples.answer_start[:, None]))
    rows = max(rows, int(sizes.sum()))
    first, layout = np.arange(count) * width, Layout((count, width))
    if rows < count * width:
        first = np.cumsum(sizes) - sizes  # row of each example's first token
        row_of = (first[:, None] + np.minimum(column, sizes[:, None] - 1)).ravel()
        cell_of = filled(np.flatnonzero(inside), int(inside.argmin()), rows)
        layout = Layout(layout.shape, torch.from_numpy(row_of), torch.from_numpy(cell_of))
    target_rows = filled(first[example_of] + target_column - 1, 0, targets)
    parts = target_rows, filled(tokens[example_of, target_column], IGNORED, targets), example_of
    return Batch(torch.from_numpy(tokens), layout, *map(torch.from_numpy, parts))


def rounded_up(number: int, most: int) -> int:
    """The next multiple of an eighth of ``most``, which is the largest."""
    step = -(-most // EIGHTHS)
    return min(most, -(-number // step) * step)


def filled(values: Int[np.ndarray, " N"], value: int, count: int) -> Int[np.ndarray, " M"]:
    """Append ``value`` until there are at least ``count``."""
    return np.append(values, np.full(max(0, count - len(values)), value, values.dtype))
