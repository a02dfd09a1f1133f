"""Examples as tensors: which tokens go in, and at which places the answer is predicted. Training and evaluation share it.

The model's rows are the tokens of all examples, one after the other, without any padding. Attention needs rectangles, so a
``Layout`` says which row goes into which cell of a few rectangles of like sizes, and where each row is found there again.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from tasks import PAD, Examples

from .layout import Layout

IGNORED = -100
"""The target of a place that does not count, as ``torch.nn.functional.cross_entropy`` has it."""
STEP = 16
"""Sizes are told apart in steps of as many tokens, the vector width to which attention fills up its keys."""


@dataclass(frozen=True)
class Batch:
    """Examples in order of size, as rows and as rectangles, M of whose rows predict a token that counts."""

    tokens: tuple[Int[Tensor, "B T"], ...]
    """Padded rectangles of like sizes."""
    layout: Layout
    places: Int[Tensor, " M"]
    """Rows whose next token counts: from ``<sep>`` to the token before ``<eos>``."""
    targets: Int[Tensor, " M"]
    """The token that follows each place."""
    owner: Int[Tensor, " M"]
    """The example each place belongs to, counted in order of size."""
    count: int
    """Examples."""

    def to(self, device: torch.device) -> "Batch":
        if device.type == "cpu":
            return self

        def move(t: Tensor) -> Tensor:
            return t.to(device, non_blocking=True)

        tokens, layout = tuple(map(move, self.tokens)), self.layout.to(device)
        return Batch(tokens, layout, move(self.places), move(self.targets), move(self.owner), self.count)


def as_batch(examples: Examples, most: int = 1) -> Batch:
    """Every token of the answer and ``<eos>`` becomes a target; prompt and padding do not.

    Arguments:
        most: rectangles at most.
    """
    order = np.argsort(examples.sizes, kind="stable")
    tokens, starts, sizes = examples.tokens[order], examples.answer_start[order], examples.sizes[order]
    first = np.concatenate([[0], np.cumsum(sizes)])  # row of each example's first token
    rectangles, shapes, row_of, cell_of, cells = [], [], [], [], 0
    for low, high in cuts(sizes, most):
        width = int(sizes[high - 1])
        at = np.arange(width)
        rectangles.append(torch.from_numpy(np.ascontiguousarray(tokens[low:high, :width])))
        shapes.append((high - low, width))
        inside = at < sizes[low:high, None]
        row_of.append((first[low:high, None] + np.minimum(at, sizes[low:high, None] - 1)).ravel())
        cell_of.append(np.flatnonzero(inside) + cells)
        cells += inside.size
    at = np.arange(tokens.shape[1])
    owner, column = np.nonzero((at >= starts[:, None]) & (at < sizes[:, None]))
    full = cells == first[-1]
    layout = Layout(tuple(shapes), *(() if full else map(torch.from_numpy, map(np.concatenate, (row_of, cell_of)))))
    places, targets = torch.from_numpy(first[owner] + column - 1), torch.from_numpy(tokens[owner, column])
    return Batch(tuple(rectangles), layout, places, targets, torch.from_numpy(owner), len(tokens))


def fixed_batch(examples: Examples, width: int, answer: int) -> Batch:
    """One rectangle that is filled up, so that all steps have the same shapes, whatever the lengths of their examples.

    Padding is a row like any other, and every example has as many places; those past its end have ``IGNORED`` as target.

    Arguments:
        width: tokens of a row, at least those of the longest example.
        answer: places of an example, at least the tokens of the longest answer with its ``<eos>``. From where the longest
            prompt ends as many fit into the row.
    """
    count = len(examples)
    tokens = np.full((count, width), PAD, np.int64)
    tokens[:, : examples.tokens.shape[1]] = examples.tokens
    places = examples.answer_start[:, None] - 1 + np.arange(answer)
    inside = places + 1 < examples.sizes[:, None]
    targets = np.where(inside, np.take_along_axis(tokens, np.minimum(places + 1, width - 1), 1), IGNORED)
    rows = places + np.arange(count)[:, None] * width
    owner = np.repeat(np.arange(count), answer)
    at, following, of = (torch.from_numpy(part.ravel()) for part in (rows, targets, owner))
    return Batch((torch.from_numpy(tokens),), Layout(((count, width),)), at, following, of, count)


def cuts(sizes: Int[np.ndarray, " N"], most: int) -> list[tuple[int, int]]:
    """Stretches of sorted sizes that share a step of sizes, wide enough that there are at most ``most`` of them."""
    step = max(STEP, -(-int(sizes[-1]) // most))
    edges = np.flatnonzero(np.diff((sizes - 1) // step)) + 1
    ends = [0, *edges.tolist(), len(sizes)]
    return list(pairwise(ends))
