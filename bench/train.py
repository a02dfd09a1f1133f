"""Training: one recipe for every encoding. All state is in ``State``; randomness hangs on (seed, step) alone, so a run that
is stopped and resumed at any step takes exactly the steps it would have taken; on a GPU, where it first records anew, up to
rounding."""

import hashlib
import math
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

import tasks

from .batches import IGNORED, Batch, as_batch, fixed_batch
from .encodings import Stage
from .graph import Graphed, Recorder, cuda_graph
from .model import Decoder
from .optimizer import FlatAdamW
from .phases import phase
from .suite import Recipe

RECTANGLES = {"cpu": 8, "cuda": 1}
"""Rectangles of like sizes, at most, that a step's examples are laid out in for attention."""
STAGE_RATE = 0.1
"""Learning rate of an extra stage at its start, as a share of the recipe's peak."""
LOG_POINTS = 20
"""Entries of a run's loss curve."""


@dataclass
class State:
    """Everything that training changes, beside the weights and the optimizer."""

    step: int = 0
    diverged: bool = False
    loss: list[tuple[int, float]] = field(default_factory=list)
    loss_sum: float = 0.0
    """Sum of losses since the last entry of ``loss``."""
    loss_steps: int = 0
    step_ms: list[float] = field(default_factory=list)
    """Mean step time of each stretch between two entries of ``loss``, in milliseconds."""
    train_s: float = 0.0
    total_s: float = 0.0
    """Time on the run as of the last save, everything counted."""
    started: str = ""
    """When the run first began: ISO 8601, UTC."""


class Stopped(Exception):
    """Training was asked to stop; its state is in the checkpoint."""


def seed_of(*parts: object) -> int:
    """A 63-bit seed that hangs on all parts: no two uses of one training seed share a stream."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big") >> 1


def generator(*parts: object, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed_of(*parts))


def stage_steps(recipe: Recipe, stage: Stage | None) -> int:
    """Steps of an encoding's extra stage, which follow those of the recipe: never more than its share of them."""
    return math.floor(recipe.steps * stage.share) if stage else 0


def learning_rate(recipe: Recipe, step: int, extra: int = 0) -> float:
    """Linear warmup to the peak, then half a cosine to zero; ``step`` counts from 0.

    Arguments:
        extra: steps of a further stage, from a tenth of the peak in a straight line to zero.
    """
    if extra and step >= recipe.steps:
        return recipe.learning_rate * STAGE_RATE * (1 - (step - recipe.steps) / extra)
    if step < recipe.warmup_steps:
        return recipe.learning_rate * (step + 1) / recipe.warmup_steps
    done = (step - recipe.warmup_steps) / max(1, recipe.steps - recipe.warmup_steps)
    return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def precision(device: torch.device):
    """fp32 on CPU, bf16 autocast on CUDA."""
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()


def backward(model: Decoder, examples: tasks.Examples, nominal: int, draws: torch.Generator) -> Tensor:
    """Gradients of the mean cross-entropy over all answer tokens of a step's examples; returns that mean."""
    device = model.embedding.weight.device
    with phase("data"):
        batch = as_batch(examples, RECTANGLES[device.type]).to(device)
    with phase("forward"):
        loss = cross_entropy(model, batch, nominal, draws)
    with phase("backward"):
        loss.backward()
    return loss.detach()


def cross_entropy(model: Decoder, batch: Batch, nominal: int, draws: torch.Generator | None) -> Tensor:
    """Mean over the batch's places that count."""
    with precision(batch.targets.device):
        hidden = model.read(batch, nominal, draws)
    logits = model.logits(hidden.float())  # the head in fp32: near-ties are not rounding's to decide
    return F.cross_entropy(logits, batch.targets, ignore_index=IGNORED)


def graphed(model: Decoder, recorder: Recorder = cuda_graph) -> Graphed:
    """Training steps of a model by CUDA graphs."""

    def plain(batch: Batch, nominal: int) -> Tensor:
        loss = cross_entropy(model, batch, nominal, None)  # a model that draws is not recorded
        loss.backward()
        return loss.detach()

    return Graphed(model, plain, recorder)


def train(
    model: Decoder,
    optimizer: FlatAdamW,
    task: tasks.Task,
    train_length: int,
    recipe: Recipe,
    seed: int,
    state: State,
    after_step: Callable[[State], None] = lambda state: None,
    graphs: Graphed | None = None,
) -> None:
    """Train from ``state.step`` to the end of the recipe, and of the encoding's extra stage if it has one.

    Ends early, with ``state.diverged``, where loss or gradient is no longer finite.

    Arguments:
        after_step: called after every step with the state up to date: saves, reports, or raises ``Stopped``.
        graphs: steps are recorded by it as long as they can be; by default on a GPU.
    """
    model.train()
    device = model.embedding.weight.device
    if graphs is None and device.type == "cuda":
        graphs = graphed(model)
    extra = stage_steps(recipe, model.encoding.stage)
    end = recipe.steps + extra
    stretch = max(1, recipe.steps // LOG_POINTS)
    stretch_start, stretch_first = time.perf_counter(), state.step

    def length_at(step: int) -> int:
        return train_length if step < recipe.steps else task.longest

    def draw(step: int) -> tasks.Examples:
        with phase("data"):
            return tasks.train_batch(task, length_at(step), recipe.batch, seed, step)

    ahead: tasks.Examples | None = None
    while state.step < end and not state.diverged:
        start = time.perf_counter()
        examples, nominal = ahead or draw(state.step), task.tokens(length_at(state.step))
        optimizer.zero_grad()
        if graphs and graphs.trusted:
            with phase("data"):
                batch = fixed_batch(examples, nominal, task.widths(length_at(state.step))[1] + 1)
            with phase("backward"):  # and forward: a recording cannot be told apart
                loss = graphs(batch, nominal)
        else:
            loss = backward(model, examples, nominal, generator("train", seed, state.step, device=device))
        with phase("optimiser"):
            norm = optimizer.clip(recipe.clip_norm)
        if device.type == "cuda" and state.step + 1 < end:
            ahead = draw(state.step + 1)  # while the GPU is at work
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, state.step, extra)
        value = loss.item()
        if not (math.isfinite(value) and math.isfinite(norm.item())):
            state.diverged = True  # the weights stay as they were before this step
        else:
            with phase("optimiser"):
                optimizer.step()
            state.loss_sum += value
            state.loss_steps += 1
            state.step += 1
        now = time.perf_counter()
        state.train_s += now - start
        if state.step % stretch == 0 or state.step == end:
            if state.loss_steps:
                state.loss.append((state.step, state.loss_sum / state.loss_steps))
            state.loss_sum, state.loss_steps = 0.0, 0
            if state.step > stretch_first:
                state.step_ms.append((now - stretch_start) * 1e3 / (state.step - stretch_first))
            stretch_start, stretch_first = now, state.step
        after_step(state)


def median_step_ms(state: State) -> float:
    return statistics.median(state.step_ms) if state.step_ms else 0.0
