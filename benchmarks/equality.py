"""One encoding on a GPU against the CPU, in fp32: loss and gradient of the first step, and the first losses of a training."""

from typing import Any
from unittest.mock import patch

import torch
from common import Ours, suite_of
from torch.overrides import TorchFunctionMode

import tasks
from bench.training import train
from bench.training.batches import few_shapes_batch


class DrawOnCPU(TorchFunctionMode):
    """Random numbers drawn with a generator come from a CPU's generator of the same seed, on any device."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: dict[torch.Generator, torch.Generator] = {}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        generator = kwargs.get("generator")
        if generator is None or "device" not in kwargs:
            return function(*args, **kwargs)
        device = kwargs.pop("device")
        own = self.sources.setdefault(generator, torch.Generator().manual_seed(generator.initial_seed()))
        return function(*args, **kwargs | {"generator": own}, device="cpu").to(device)


def compare(encoding: str, device: torch.device, steps: int, batch: int | None) -> list[dict[str, Any]]:
    """Relative differences between the CPU and the device in the first steps, and between recorded and plain steps."""
    suite = suite_of("64x3", "copying", batch=batch)
    expected, gradient = first_steps(Ours(suite, encoding), steps)
    found, own = first_steps(Ours(suite, encoding, device, graphs=False), steps)
    differences = [abs(a - b) / abs(a) for a, b in zip(expected, found, strict=True)]
    graph = compare_graphs(Ours(suite, encoding, device), steps // 2)
    return [{"loss": differences[0], "gradient": relative(gradient, own), "losses": max(differences), "graph": graph}]


def first_steps(one: Ours, count: int) -> tuple[list[float], torch.Tensor]:
    """Losses of the first steps, and the gradient of the first one."""
    losses, gradients = list[float](), list[torch.Tensor]()

    def compute(*arguments: Any) -> torch.Tensor:
        loss = forward_backward(*arguments)
        losses.append(float(loss))
        gradients.append(gradient_of(one))
        return loss

    forward_backward = train.forward_backward
    with DrawOnCPU(), patch.object(train, "forward_backward", compute):
        one.steps(count)
    return losses, gradients[0]


def gradient_of(one: Ours) -> torch.Tensor:
    """The gradient of all parameters as one vector."""
    parts = (torch.zeros_like(p) if p.grad is None else p.grad for p in one.model.parameters())
    return torch.cat([part.flatten().cpu() for part in parts])


def relative(expected: torch.Tensor, found: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm().clamp_min(1e-30))


def compare_graphs(one: Ours, steps: int) -> float | None:
    """Largest relative difference of the gradients of recorded and plain steps; None if they are not recorded."""
    if one.graphs is None or not one.graphs.usable:
        return None
    largest, announced = 0.0, one.task.tokens(one.length)
    for step in range(steps):
        examples = tasks.train_batch(one.task, one.length, one.recipe.batch, 0, step)
        batch = few_shapes_batch(examples, announced, one.task.widths(one.length)[1] + 1, pinned=True)
        one.graphs(batch, announced)
        if not one.graphs.usable:
            return None
        replayed = gradient_of(one)
        one.graphs.plain_step(batch, announced)
        largest = max(largest, relative(gradient_of(one), replayed))
    return largest
