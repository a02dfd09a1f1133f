"""Examples as tensors, for training and evaluation: input tokens, target tokens, and the rows that predict them.

The model works on packed rows: the tokens of all examples, one after the other, without padding. Attention needs rectangles, so
examples of similar size share a padded bucket, and a ``Layout`` maps rows to the cells of the buckets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from tasks import PAD, Examples

from .layout import Layout

IGNORED = -100
"""Target of a row that does not count (``ignore_index`` of ``torch.nn.functional.cross_entropy``)."""
SIZE_STEP = 16
"""Bucket boundaries are at least this many tokens apart; it is the vector width to which attention pads its keys."""
ROUND = 16
"""Least step of rounded numbers of rows."""
EIGHTHS = 8
"""Numbers of rows of ``few_shapes_batch`` are multiples of this part of a full bucket's."""


@dataclass(frozen=True)
class Batch:
    """Examples as padded buckets: ``as_batch`` sorts them by size, ``few_shapes_batch`` keeps their order.

    M packed rows predict an answer token.
    """

    tokens: tuple[Int[Tensor, "B T"], ...]
    """Padded tokens of each bucket."""
    layout: Layout
    target_rows: Int[Tensor, " M"]
    """Rows whose next token is a target: from ``<sep>`` to the token before ``<eos>``. Then, if rounded, row 0."""
    targets: Int[Tensor, " M"]
    """The next token of each target row, or ``IGNORED``."""
    example_of: Int[Tensor, " m"]
    """The example of each target row that counts, as an index into the examples in this order; always on the CPU."""
    memory: Int[Tensor, " numbers"] | None = None
    """Of which all other tensors but ``example_of`` are views, in the order of ``tensors``; None: each has its own memory."""

    def tensors(self) -> tuple[Tensor, ...]:
        """All that the model reads; those of the layout, last, only if there are any."""
        cells = (part for part in (self.layout.row_of, self.layout.cell_of) if part is not None)
        return *self.tokens, self.target_rows, self.targets, *cells

    def with_tensors(self, tensors: Sequence[Tensor]) -> "Batch":
        """This batch with others of the same shapes."""
        count = len(self.tokens)
        target_rows, targets, *cells = tensors[count:]
        layout = Layout(self.layout.shapes, *cells)
        return Batch(tuple(tensors[:count]), layout, target_rows, targets, self.example_of)

    def to(self, device: torch.device) -> "Batch":
        if device.type == "cpu":
            return self
        return self.with_tensors([part.to(device, non_blocking=True) for part in self.tensors()])

    def within(self, memory: Int[Tensor, " numbers"]) -> "Batch":
        """This batch with tensors that are views of a vector, which contains their values."""
        shapes = [part.shape for part in self.tensors()]
        parts = memory.split([shape.numel() for shape in shapes])
        views = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        return replace(self.with_tensors(views), memory=memory)


def as_batch(examples: Examples, max_buckets: int = 1, rounded: bool = False) -> Batch:
    """Batch of examples in at most ``max_buckets`` buckets; every answer token and ``<eos>`` is a target.

    Arguments:
        rounded: append rows that do not count, so that batches have few different numbers of rows and of target rows, for
            which oneDNN compiles kernels. The further rows are copies of a padding cell, which gets no gradient.
    """
    order = np.argsort(examples.sizes, kind="stable")
    tokens, starts, sizes = examples.tokens[order], examples.answer_start[order], examples.sizes[order]
    first = np.concatenate([[0], np.cumsum(sizes)])  # row of each example's first token
    buckets, shapes, row_of, cell_of, cells = [], [], [], [], 0
    for low, high in bucket_bounds(sizes, max_buckets):
        width = int(sizes[high - 1])
        column = np.arange(width)
        buckets.append(torch.from_numpy(np.ascontiguousarray(tokens[low:high, :width])))
        shapes.append((high - low, width))
        inside = column < sizes[low:high, None]
        row_of.append((first[low:high, None] + np.minimum(column, sizes[low:high, None] - 1)).ravel())
        cell_of.append(np.flatnonzero(inside) + cells)
        cells += inside.size
    column = np.arange(tokens.shape[1])
    example_of, target_column = np.nonzero((column >= starts[:, None]) & (column < sizes[:, None]))
    if cells == first[-1]:
        layout = Layout(tuple(shapes))
    else:
        cell = np.concatenate(cell_of)
        if rounded:
            unused = np.ones(cells, bool)
            unused[cell] = False
            cell = extended(cell, int(unused.argmax()))
        layout = Layout(tuple(shapes), torch.from_numpy(np.concatenate(row_of)), torch.from_numpy(cell))
    target_rows, targets = first[example_of] + target_column - 1, tokens[example_of, target_column]
    if rounded:  # row 0 is a <bos>, which is no target
        target_rows, targets = extended(target_rows, 0), extended(targets, IGNORED)
    rows, values, origins = map(torch.from_numpy, (target_rows, targets, example_of))
    return Batch(tuple(buckets), layout, rows, values, origins)


def extended(values: Int[np.ndarray, " N"], value: int) -> Int[np.ndarray, " M"]:
    """Append ``value`` until the number of values is one of the 8 to 16 even steps between two powers of two.

    oneDNN keeps half a megabyte for each kernel, and the further rows leave the last bits of results as they are.
    """
    step = max(ROUND, 1 << max(0, len(values).bit_length() - 5))
    return filled(values, value, len(values) + -len(values) % step)


def few_shapes_batch(examples: Examples, width: int, answer: int, pinned: bool = False) -> Batch:
    """Batch in one bucket with few different shapes, so that a CUDA graph recorded for one serves many steps.

    The numbers of rows and of target rows are rounded up to eighths of those of examples that fill the bucket; further rows
    are as in ``as_batch``. Where lengths are uniform, half of the bucket is padding, and most steps of a task have one to three
    shapes.

    Arguments:
        width: tokens per example, at least those of the longest.
        answer: tokens of the longest answer including ``<eos>``.
        pinned: in memory from which a GPU copies while the CPU goes on.
    """
    count, sizes = len(examples), examples.sizes
    tokens = np.full((count, width), PAD, np.int64)
    tokens[:, : examples.tokens.shape[1]] = examples.tokens
    column = np.arange(width)
    inside = column < sizes[:, None]
    example_of, target_column = np.nonzero(inside & (column >= examples.answer_start[:, None]))
    row_count = rounded_up(int(sizes.sum()), count * width)
    target_count = rounded_up(len(example_of), count * answer)
    first = np.arange(count) * width
    layout = Layout(((count, width),))
    if row_count < count * width:
        first = np.cumsum(sizes) - sizes
        row_of = (first[:, None] + np.minimum(column, sizes[:, None] - 1)).ravel()
        cell_of = filled(np.flatnonzero(inside), int(inside.argmin()), row_count)
        layout = Layout(layout.shapes, torch.from_numpy(row_of), torch.from_numpy(cell_of))
    target_rows = filled(first[example_of] + target_column - 1, 0, target_count)
    targets = filled(tokens[example_of, target_column], IGNORED, target_count)
    parts = map(torch.from_numpy, (target_rows, targets, example_of))
    batch = Batch((torch.from_numpy(tokens),), layout, *parts)
    numbers = [part.flatten() for part in batch.tensors()]
    memory = torch.empty(sum(map(len, numbers)), dtype=torch.int64, pin_memory=pinned)
    return batch.within(torch.cat(numbers, out=memory))


def rounded_up(number: int, most: int) -> int:
    """The next multiple of an eighth of ``most``, which is the largest."""
    step = -(-most // EIGHTHS)
    return min(most, -(-number // step) * step)


def filled(values: Int[np.ndarray, " N"], value: int, count: int) -> Int[np.ndarray, " M"]:
    """Append ``value`` until there are ``count``."""
    return np.append(values, np.full(count - len(values), value, values.dtype))


def bucket_bounds(sizes: Int[np.ndarray, " N"], max_buckets: int) -> list[tuple[int, int]]:
    """First and last (exclusive) index of each bucket of the sorted sizes."""
    step = max(SIZE_STEP, -(-int(sizes[-1]) // max_buckets))
    edges = np.flatnonzero(np.diff((sizes - 1) // step)) + 1
    return list(pairwise([0, *edges.tolist(), len(sizes)]))
