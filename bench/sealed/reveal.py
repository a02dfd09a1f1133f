"""Predictions without answers: the process sees a prompt, predicts, and only then sees the next token of the answer.

``bench.training.evaluate`` scores them. Every causal encoding predicts the same in one teacher-forced pass, up to rounding.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from bench.training.batches import Batch
from tasks import PAD

from .judge import SealedModel

TOLERANCE = 0.05
"""Most by which a logit may change. Rounding changes logits of honest encodings by up to 0.001."""


class Revealed:
    """Predicts for ``evaluate``, and asks the process that has trained for the same predictions, with the answers in view.

    The two differ if predictions depend on later tokens or on earlier passes. The tested process never sees an answer that it
    has not predicted. Random encodings may draw other numbers at other lengths, so both processes see the same of them.

    Arguments:
        trained: the process that has trained, with the weights of the tested one.
    """

    def __init__(self, trained: SealedModel):
        self.trained = trained
        self.change: dict[int, float] = {}
        """Announced length → largest change of a logit; infinite if one is not a number."""

    def predict(
        self, model: SealedModel, batch: Batch, announced_length: int, generator: torch.Generator
    ) -> Float[Tensor, "M V"]:
        """Logits of the target tokens."""
        seed = generator.initial_seed()
        logits = reveal(model, batch, announced_length, seed)
        if model.encoding.info.random:
            other = reveal(self.trained, batch, announced_length, seed)
        else:
            other = self.trained.logits(batch.tokens.numpy(), target_cells(batch), announced_length, seed)
        change = float((logits - other).abs().nan_to_num(torch.inf).max())
        self.change[announced_length] = max(change, self.change.get(announced_length, 0.0))
        return logits

    def faults(self) -> list[str]:
        """One line for each length at which the two differ."""
        return [
            f"sequences announced as {length} tokens: logits change by {change:.3g} in the process that has trained, "
            f"with the answer in view"
            for length, change in self.change.items()
            if change > TOLERANCE
        ]


def target_cells(batch: Batch) -> Int[np.ndarray, " M"]:
    """The cell of the padded batch before each target token."""
    rows, cell_of = batch.target_rows, batch.layout.cell_of
    return (rows if cell_of is None else cell_of[rows]).numpy()


def reveal(
    model: SealedModel, batch: Batch, announced_length: int, seed: int, before_stage: bool = False
) -> Float[Tensor, "M V"]:
    """Logits of each target token before it is known."""
    tokens, example_of = batch.tokens.numpy(), batch.example_of.numpy()
    known = target_cells(batch) % tokens.shape[1] + 1  # tokens before each target
    _, begin, count = np.unique(example_of, return_index=True, return_counts=True)
    place, column = known - known[begin][example_of], np.arange(tokens.shape[1])
    found = torch.zeros(len(known), model.symbols)
    for now in range(int(count.max())):
        # Rows stay in the batch to its end, so that random draws do not change; a finished one repeats its last prefix.
        sizes = known[begin + np.minimum(now, count - 1)]
        shown = np.where(column < sizes[:, None], tokens, PAD)[:, : int(sizes.max())]
        cells = np.arange(len(shown)) * shown.shape[1] + sizes - 1
        logits = model.logits(np.ascontiguousarray(shown), cells, announced_length, seed, before_stage)
        found[place == now] = logits[example_of[place == now]]
    return found
