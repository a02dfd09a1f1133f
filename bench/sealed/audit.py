"""What the judge compares: gradients with differences of the loss, and predictions of two processes.

A process predicts without answers: it sees a prompt, predicts, and only then sees the next token of the answer. Every causal
encoding predicts the same in one teacher-forced pass, up to rounding.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from bench.training.batches import Batch, as_batch
from bench.training.train import derive_seed
from tasks import PAD, Examples

from .judge import SealedModel
from .process import SealedError

STEPS, STAGE_STEPS = 8, 2
"""Audited steps of a run, and of its extra stage."""
CHANGE, FARTHEST = 1e-3, 1e-5
"""Weights are moved for this change of the loss, in nats, but by at most this share of their norm."""
SLOPE_TOLERANCE = 0.02
"""Largest relative deviation. Honest gradients of four encodings on two suites deviated by at most 4e-3."""
LOGIT_TOLERANCE = 0.05
"""Most by which a logit may change. Rounding changes logits of honest encodings by up to 0.001."""


def audited_steps(steps: int, extra_steps: int) -> set[int]:
    """Some steps of a recipe and of a stage, which the code cannot foresee."""
    rng = np.random.default_rng()
    chosen = set(rng.choice(steps, min(STEPS, steps), replace=False).tolist())
    return chosen | set((steps + rng.choice(extra_steps, min(STAGE_STEPS, extra_steps), replace=False)).tolist())


@torch.no_grad()
def compare_gradient(trained: SealedModel, other: SealedModel, step: int, examples: Examples, announced_length: int) -> None:
    """Compare the gradient g of a training step with differences of the loss, in a process that has seen no training.

    With weights w, the loss of the same examples at w + εv and w − εv differs by 2ε g·v, up to third order. v is g on a random
    half of the coordinates, so that a gradient of other data shows. The requests are those of a test; only code that keeps
    state between passes, which other checks look for, could notice them.

    Raises:
        SealedError: the two deviate.
    """
    coins = np.random.default_rng()
    half = {
        name: p.grad * torch.from_numpy(coins.integers(2, size=tuple(p.shape)).astype(np.float32))
        for name, p in trained.weights.items()
        if p.grad is not None
    }
    expected, norm = total_norm(half), total_norm(trained.weights)
    if not math.isfinite(expected):
        return  # the training has diverged
    move = min(CHANGE / expected**2, FARTHEST * norm / expected)
    batch, losses = as_batch(examples), []
    other.in_stage = trained.in_stage
    for sign in (1, -1):
        other.push_weights({name: w + sign * move * half[name] if name in half else w for name, w in trained.weights.items()})
        logits = reveal(other, batch, announced_length, derive_seed("audit", step))
        losses.append(float(F.cross_entropy(logits.double(), batch.targets)))
    measured = (losses[0] - losses[1]) / (2 * move * expected)
    if not abs(measured - expected) <= SLOPE_TOLERANCE * expected:
        raise SealedError(f"step {step}: the gradient predicts a slope of {expected:.3g}, the loss has {measured:.3g}")


def total_norm(tensors: Mapping[str, Tensor]) -> float:
    return float(torch.nn.utils.get_total_norm(tensors.values()))


def compared_logits(
    trained: SealedModel, tested: SealedModel, batch: Batch, announced_length: int, generator: torch.Generator
) -> Float[Tensor, "M V"]:
    """Logits of the target tokens by the tested process, which never sees an answer that it has not predicted.

    They differ from those of the process that has trained, which sees the answers, if predictions depend on later tokens or on
    earlier passes. Random encodings may draw other numbers at other lengths, so both processes see the same of them.

    Raises:
        SealedError: the two differ.
    """
    seed = generator.initial_seed()
    logits = reveal(tested, batch, announced_length, seed)
    if tested.encoding.info.random:
        other = reveal(trained, batch, announced_length, seed)
    else:
        other = trained.logits(batch.tokens.numpy(), target_cells(batch), announced_length, seed)
    change = float((logits - other).abs().nan_to_num(torch.inf).max())
    if change > LOGIT_TOLERANCE:
        raise SealedError(
            f"sequences announced as {announced_length} tokens: logits change by {change:.3g} in the process that has trained, "
            "with the answer in view"
        )
    return logits


def target_cells(batch: Batch) -> Int[np.ndarray, " M"]:
    """The cell of the padded batch before each target token."""
    rows, cell_of = batch.target_rows, batch.layout.cell_of
    return (rows if cell_of is None else cell_of[rows]).numpy()


def reveal(model: SealedModel, batch: Batch, announced_length: int, seed: int) -> Float[Tensor, "M V"]:
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
        logits = model.logits(np.ascontiguousarray(shown), cells, announced_length, seed)
        found[place == now] = logits[example_of[place == now]]
    return found
