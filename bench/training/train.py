"""The training loop and its loss, with one recipe for every encoding.

Besides weights and optimizer, all state is in ``TrainingState``, and randomness depends only on (seed, step). A run that is
interrupted and resumed at any step therefore repeats the uninterrupted run bit for bit. On a GPU, some encodings differ in the
last bits: torch's ``scatter_add``, and its attention with a bias and more than 128 tokens, add in varying order.
"""

import hashlib
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

import tasks
from bench.encodings import Stage
from bench.suites.parts import Recipe

from .batches import IGNORED, Batch, as_batch, few_shapes_batch
from .cuda_graphs import GraphedStep
from .model import Decoder
from .optimizer import AdamW

STAGE_RATE = 0.1
"""Initial learning rate of an extra stage, as a fraction of the recipe's peak."""
LOG_POINTS = 20
"""A run's loss curve has an entry every ``steps // LOG_POINTS`` steps, and one at the end."""


@dataclass
class TrainingState:
    """Everything that training changes besides the weights and the optimizer; part of the checkpoint."""

    step: int = 0
    diverged: bool = False
    loss: list[tuple[int, float]] = field(default_factory=list)
    loss_sum: float = 0.0
    """Sum of losses since the last entry of ``loss``."""
    loss_steps: int = 0
    """Number of steps since then."""
    step_ms: list[float] = field(default_factory=list)
    """Mean step time of each logging interval, in milliseconds."""
    train_s: float = 0.0
    total_s: float = 0.0
    """Total seconds spent on the run until the last checkpoint."""
    started: str = ""
    """Start of the run's first session: ISO 8601, UTC."""
    cpu_share: float | None = None
    """See ``Timings.cpu_share``; set at the end of the training."""


class Stopped(Exception):
    """Training stopped on request; its state is saved."""


def derive_seed(*parts: object) -> int:
    """A 63-bit seed derived from all parts, so that no two uses of a training seed share a random stream."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big") >> 1


def seeded_generator(*parts: object, device: torch.device) -> torch.Generator:
    return torch.Generator(device).manual_seed(derive_seed(*parts))


def stage_steps(recipe: Recipe, stage: Stage | None) -> int:
    """Number of steps of an encoding's extra stage, rounded down; they follow the steps of the recipe."""
    return math.floor(round(recipe.steps * stage.share, 9)) if stage else 0


def learning_rate(recipe: Recipe, step: int, extra_steps: int = 0) -> float:
    """Linear warmup to the peak, then cosine decay to zero; ``step`` counts from 0.

    Arguments:
        extra_steps: steps of an extra stage, which decays linearly from a tenth of the peak to zero.
    """
    if extra_steps and step >= recipe.steps:
        return recipe.learning_rate * STAGE_RATE * (1 - (step - recipe.steps) / extra_steps)
    if step < recipe.warmup_steps:
        return recipe.learning_rate * (step + 1) / recipe.warmup_steps
    done = (step - recipe.warmup_steps) / max(1, recipe.steps - recipe.warmup_steps)
    return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * done))


def autocast(model: Decoder, device: torch.device) -> AbstractContextManager:
    """The context of the model's forward pass: bf16 autocast on a GPU, unless its precision is ``fp32``."""
    low = device.type == "cuda" and model.precision != "fp32"
    return torch.autocast("cuda", torch.bfloat16) if low else nullcontext()


def target_logits(
    model: Decoder, batch: Batch, announced_length: int, generator: torch.Generator | None
) -> Float[Tensor, "M V"]:
    """Logits of the target tokens, all from one pass."""
    with autocast(model, batch.targets.device):
        hidden = model.packed_states(batch.tokens, batch.layout, announced_length, generator, batch.target_rows)
    return model.logits(hidden.float())  # head in fp32, so that rounding does not decide near-ties


def answer_loss(model: Decoder, batch: Batch, announced_length: int, generator: torch.Generator | None = None) -> Tensor:
    """Mean cross-entropy over the answer tokens of a batch, ``<eos>`` included."""
    logits = target_logits(model, batch, announced_length, generator)
    return F.cross_entropy(logits, batch.targets, ignore_index=IGNORED)


def forward_backward(model: Decoder, examples: tasks.Examples, announced_length: int, generator: torch.Generator) -> Tensor:
    """Compute the loss of a step's examples and its gradients; returns the loss."""
    loss = answer_loss(model, as_batch(examples).to(model.embedding.weight.device), announced_length, generator)
    loss.backward()
    return loss.detach()


def train(
    model: Decoder,
    optimizer: AdamW,
    task: tasks.Task,
    train_length: int,
    recipe: Recipe,
    seed: int,
    state: TrainingState,
    after_step: Callable[[TrainingState], None] = lambda state: None,
    graphs: GraphedStep | None = None,
) -> None:
    """Train from ``state.step`` to the end of the recipe, and of the encoding's extra stage if it has one.

    Ends early and sets ``state.diverged`` if loss or gradient is infinite or NaN.

    Arguments:
        after_step: called with the updated state after every step; may save, report or raise ``Stopped``.
        graphs: used while it is ``usable``; by default there is one on a GPU and none on a CPU.
    """
    model.train()
    device = model.embedding.weight.device
    if graphs is None and device.type == "cuda":
        graphs = GraphedStep(model, partial(answer_loss, model))
    stage = model.encoding.stage
    extra_steps = stage_steps(recipe, stage)
    end = recipe.steps + extra_steps
    log_interval = max(1, recipe.steps // LOG_POINTS)
    if state.loss and state.loss[-1][0] % log_interval and state.step < end:
        state.loss.pop()  # the end of the training that a stage continues; its sums are kept
    interval_start, interval_first = time.perf_counter(), state.step

    def prepare(step: int) -> tuple[tasks.Examples, int, Batch | None]:
        """The examples of a step, the announced length, and their batch if it is to be replayed."""
        length = task.longest if step >= recipe.steps and stage and stage.longer else train_length
        examples = tasks.train_batch(task, length, recipe.batch, seed, step, length if recipe.lengths == "L" else 1)
        tokens, batch = task.tokens(length), None
        if graphs and graphs.usable:
            batch = few_shapes_batch(examples, tokens, task.widths(length)[1] + 1, pinned=device.type == "cuda")
        return examples, tokens, batch

    following = None
    while state.step < end and not state.diverged:
        start = time.perf_counter()
        examples, announced_length, batch = following or prepare(state.step)
        model.in_stage = state.step >= recipe.steps
        if graphs and graphs.usable and batch:
            loss = graphs(batch, announced_length)
        else:
            optimizer.zero_grad()
            generator = seeded_generator("train", seed, state.step, device=device)
            loss = forward_backward(model, examples, announced_length, generator)
        rate = learning_rate(recipe, state.step, extra_steps)
        encoding_only = model.in_stage and stage is not None and stage.encoding_only
        update = optimizer.update(loss, rate, recipe.clip_norm, encoding_only)
        if graphs and state.step + 1 < end:
            following = prepare(state.step + 1)  # while the GPU computes
        value, skipped = read(update)
        if skipped:
            state.diverged = True  # and the weights stay as before this step
        else:
            state.loss_sum += value
            state.loss_steps += 1
            state.step += 1
        now = time.perf_counter()
        state.train_s += now - start
        if state.step % log_interval == 0 or state.step == end:
            if state.loss_steps:
                state.loss.append((state.step, state.loss_sum / state.loss_steps))
            if state.step % log_interval == 0:
                state.loss_sum, state.loss_steps = 0.0, 0
            if state.step > interval_first:
                state.step_ms.append((now - interval_start) * 1e3 / (state.step - interval_first))
            interval_start, interval_first = now, state.step
        after_step(state)


def read(numbers: Float[Tensor, " N"]) -> list[float]:
    """The numbers on the CPU. The wait for a GPU sleeps: torch's own wait keeps a core busy, which other runs could use."""
    if numbers.device.type == "cuda":
        numbers = torch.empty_like(numbers, device="cpu", pin_memory=True).copy_(numbers, non_blocking=True)
        done = torch.cuda.Event(blocking=True)
        done.record()
        done.synchronize()
    return numbers.tolist()
