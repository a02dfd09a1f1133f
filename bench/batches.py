"""Examples as tensors: which tokens go in, and at which places the answer is predicted. Training and evaluation share it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from tasks import Examples


@dataclass(frozen=True)
class Batch:
    """One padded rectangle of examples. Places are flat indices into its B·T tokens."""

    tokens: Int[Tensor, "B T"]
    places: Int[Tensor, " M"]
    """Places whose next token counts: from ``<sep>`` to the token before ``<eos>``."""
    targets: Int[Tensor, " M"]
    """The token that follows each place."""
    owner: Int[Tensor, " M"]
    """The row each place belongs to."""

    def to(self, device: torch.device) -> "Batch":
        if device.type == "cpu":
            return self
        return Batch(*(t.to(device, non_blocking=True) for t in (self.tokens, self.places, self.targets, self.owner)))


def as_batch(examples: Examples) -> Batch:
    """Every token of the answer and ``<eos>`` becomes a target; prompt and padding do not."""
    tokens = examples.tokens
    owner, at = np.nonzero(examples.targets)
    places = owner * tokens.shape[1] + at - 1
    return Batch(*(torch.from_numpy(np.ascontiguousarray(a)) for a in (tokens, places, tokens[owner, at], owner)))


def by_size(examples: Examples, parts: int) -> Iterator[Examples]:
    """The same examples in ``parts`` groups of like sizes, so that little of a group is padding."""
    order = np.argsort(examples.sizes, kind="stable")
    for rows in np.array_split(order, min(parts, len(order))):
        yield examples.rows(rows)
