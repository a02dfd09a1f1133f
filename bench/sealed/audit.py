"""Gradients compared with differences of the loss, at steps that the code cannot foresee.

At a recorded step with weights w and gradient g, the loss of the same examples is computed twice more, at w + εv and w − εv, in
a process that has seen no training, by the same requests as a test. The difference over 2ε is g·v up to third order. v is g on
a random half of the coordinates, so that a gradient of other data shows. Only code that keeps state between passes, which other
checks look for, could notice an audit: the weights change in it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from bench.training.batches import as_batch
from bench.training.train import derive_seed
from tasks import Examples

from .judge import SealedModel
from .reveal import reveal

STEPS, STAGE_STEPS = 8, 2
"""Audited steps of a run, and of its extra stage."""
CHANGE, FARTHEST = 1e-3, 1e-5
"""ε is chosen for this change of the loss, in nats, but moves the weights by at most this share of their norm."""
TOLERANCE = 0.02
"""Largest relative deviation. Honest gradients of four encodings on two suites deviated by at most 4e-3."""


@dataclass(frozen=True)
class AuditedStep:
    step: int
    weights: dict[str, torch.Tensor]
    gradient: dict[str, torch.Tensor]
    examples: Examples
    announced_length: int
    before_stage: bool
    """Whether an extra stage came later: hooks may differ after it, and tests are after it."""


class Audit:
    """Records some of the ``steps`` of a recipe and of the ``extra_steps`` of a stage, and checks them afterwards."""

    def __init__(self, steps: int, extra_steps: int, rng: np.random.Generator):
        self.rng, self.records = rng, list[AuditedStep]()
        self.chosen = set(rng.choice(steps, min(STEPS, steps), replace=False).tolist())
        self.chosen |= set((steps + rng.choice(extra_steps, min(STAGE_STEPS, extra_steps), replace=False)).tolist())

    def record(self, step: int, model: SealedModel, examples: Examples, announced_length: int) -> None:
        """Keep a copy of the step if it is one of the chosen. Random encodings are not audited: the draws differ."""
        if step in self.chosen and not model.encoding.info.random:
            weights = {name: p.detach().clone() for name, p in model.weights.items()}
            gradient = {n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in model.weights.items()}
            before = model.encoding.stage is not None and not model.in_stage
            self.records.append(AuditedStep(step, weights, gradient, examples, announced_length, before))

    def faults(self, model: SealedModel) -> list[str]:
        """Deviations above the tolerance, or that are not numbers, one line each."""
        found = []
        for record in self.records:
            expected, measured = self.slopes(model, record)
            if not abs(measured - expected) <= TOLERANCE * abs(expected):
                found.append(
                    f"step {record.step}: the gradient predicts a slope of {expected:.3g}, the loss has {measured:.3g}"
                )
        return found

    def slopes(self, model: SealedModel, record: AuditedStep) -> tuple[float, float]:
        """g·v/|v| and the difference of losses along it."""
        half = {
            name: gradient * torch.from_numpy(self.rng.integers(2, size=tuple(gradient.shape)).astype(np.float32))
            for name, gradient in record.gradient.items()
        }
        length, norm = total_norm(half), total_norm(record.weights)
        step = min(CHANGE / length**2, FARTHEST * norm / length)
        batch, losses = as_batch(record.examples), []
        for sign in (1, -1):
            model.push_weights({name: w + sign * step * half[name] for name, w in record.weights.items()})
            seed = derive_seed("audit", record.step)
            logits = reveal(model, batch, record.announced_length, seed, record.before_stage)
            losses.append(float(F.cross_entropy(logits.double(), batch.targets)))
        return length, (losses[0] - losses[1]) / (2 * step * length)


def total_norm(tensors: dict[str, torch.Tensor]) -> float:
    return float(torch.nn.utils.get_total_norm(tensors.values()))
