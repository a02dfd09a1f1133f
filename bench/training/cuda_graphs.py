"""Forward and backward pass of a training step as a CUDA graph, which is recorded once and then replayed.

A small model leaves a GPU idle, because launching each of its hundreds of kernels takes longer than running it. Replaying a
graph is one launch, but needs shapes and memory addresses that never change. So steps have few different shapes
(``batches.few_shapes_batch``), and their examples are copied into the memory of the first step of that shape. The optimizer
is not recorded: fused, it needs few kernels, which are launched while the graph runs.
"""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.overrides import TorchFunctionMode

from .batches import Batch
from .model import Decoder

log = logging.getLogger(__name__)

StaticFunction = Callable[[], list[Tensor]]
"""Computes tensors from others that keep their addresses."""
Recorder = Callable[[StaticFunction], tuple[list[Tensor], Callable[[], Any]]]
"""Returns the outputs of a function, and a callable that recomputes them in place."""
Loss = Callable[[Batch, int], Float[Tensor, ""]]
"""From a batch and the announced length to the loss."""

WARM_UP = 3
"""Calls before recording, in which libraries choose their kernels and the model fills its cache."""
TOLERANCE = 0.02
"""Largest accepted relative difference of loss and gradient between a replay and a plain step: bf16 has 8 bits."""


class CopyOnce(TorchFunctionMode):
    """Copies constants that hooks make in every step, such as slopes, to the GPU once: a recording cannot wait for it.

    Each ``torch.tensor`` of plain numbers, and each ``to`` of a CPU tensor that needs no gradient, copies the result of
    the first call with equal numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[tuple[object, ...], Tensor] = {}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs, numbers = kwargs or {}, None
        if function is torch.tensor:
            with suppress(TypeError, IndexError):  # of other objects, such as tensors
                numbers = json.dumps(args[0])
        elif function is torch.Tensor.to and args[0].device.type == "cpu" and not args[0].requires_grad:
            numbers = args[0].contiguous().flatten().view(torch.uint8).numpy().tobytes()
        if numbers is None or any(isinstance(value, Tensor) for value in (*args[1:], *kwargs.values())):
            return function(*args, **kwargs)
        shape = (args[0].shape, args[0].dtype) if isinstance(args[0], Tensor) else ()
        key = (function, numbers, shape, args[1:], tuple(sorted(kwargs.items())))
        if key not in self.known:
            self.known[key] = function(*args, **kwargs)
        return self.known[key].clone()


@cache
def recording_stream() -> torch.cuda.Stream:
    """The stream of all recordings of this process: cuBLAS keeps a workspace for every stream that it has met."""
    return torch.cuda.Stream()


def cuda_graph(function: StaticFunction) -> tuple[list[Tensor], Callable[[], Any]]:
    """Warm up on a separate stream, then record (PyTorch's notes on CUDA semantics, "Whole-network capture")."""
    side = recording_stream()
    side.wait_stream(torch.cuda.current_stream())
    try:
        with CopyOnce() as constants, torch.cuda.stream(side):
            for _ in range(WARM_UP):
                function()
    finally:  # after an error too: memory that is freed now may still be read there
        torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # The outer block restores the current stream: after a failed recording torch does not.
    with constants, torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph, stream=side):
        outputs = function()

    def replay() -> CopyOnce:
        graph.replay()
        return constants  # kept alive as long as this can be called

    return outputs, replay


@dataclass
class Recording:
    """The recorded graph for steps of one shape."""

    memory: Int[Tensor, " numbers"]
    """The inputs of the graph, see ``Batch.memory``."""
    loss: Float[Tensor, ""]
    gradients: list[tuple[nn.Parameter, Tensor | None]]
    """Of all parameters."""
    replay: Callable[[], Any]
    tables: list[object]
    """Cached position tables that the graph reads, kept alive."""
    replays: int = 0

    def run(self, batch: Batch) -> Float[Tensor, ""]:
        assert batch.memory is not None, "not from few_shapes_batch"
        self.memory.copy_(batch.memory, non_blocking=True)
        self.replay()
        for parameter, gradient in self.gradients:
            parameter.grad = gradient
        self.replays += 1
        return self.loss


class GraphedStep:
    """Training steps by CUDA graphs, one per shape, as long as they can be trusted.

    The second step of each shape is also computed without the graph, because a replay repeats values that a hook computed from
    the first batch on the CPU. If the two differ, if recording fails (a hook waits for the GPU, memory runs out), or if
    the encoding draws random numbers, ``usable`` becomes False and the caller must train without graphs.

    Arguments:
        loss_of: the forward pass without a graph. Encodings that draw random numbers are not recorded.
        recorder: replaced in tests, which have no GPU.
    """

    failed: ClassVar[bool] = False
    """Whether a recording of this process failed. Before torch 2.12 CUDA's allocator then frees no memory, or raises an error
    when asked to."""

    def __init__(self, model: Decoder, loss_of: Loss, recorder: Recorder = cuda_graph):
        self.model, self.loss_of, self.recorder = model, loss_of, recorder
        self.recordings: dict[tuple[object, ...], Recording] = {}
        self.usable = not model.encoding.info.random

    def __call__(self, batch: Batch, announced_length: int) -> Float[Tensor, ""]:
        """The loss, valid until the next call, with gradients left in the parameters.

        Arguments:
            batch: from ``few_shapes_batch``, on the CPU.
            announced_length: in tokens.
        """
        try:
            return self.replayed(batch, announced_length)
        except RuntimeError as error:
            # If recording fails, the first error is the cause; the last only says that recording failed.
            reason = f"it cannot be recorded: {str(error.__context__ or error).splitlines()[0]}"
            GraphedStep.failed = True
        # Outside of the except block, where the failed step and its memory are freed.
        self.give_up(reason)
        return self.plain_step(batch, announced_length)

    def replayed(self, batch: Batch, announced_length: int) -> Float[Tensor, ""]:
        key = (announced_length, self.model.in_stage, *(part.shape for part in batch.tensors()))
        if key not in self.recordings:
            self.recordings[key] = self.record(batch, announced_length)
        recording = self.recordings[key]
        loss = recording.run(batch)
        return loss if recording.replays != 2 else self.compare(recording, batch, announced_length)

    def plain_step(self, batch: Batch, announced_length: int) -> Float[Tensor, ""]:
        self.model.zero_grad()
        loss = self.loss_of(batch.to(self.model.embedding.weight.device), announced_length)
        loss.backward()
        return loss.detach()

    def record(self, batch: Batch, announced_length: int) -> Recording:
        assert batch.memory is not None, "not from few_shapes_batch"
        memory = batch.memory.to(self.model.embedding.weight.device, copy=True)
        static = batch.within(memory)
        parameters = list(self.model.parameters())

        def step() -> list[Tensor]:
            loss = self.plain_step(static, announced_length)
            return [loss, *(p.grad for p in parameters if p.grad is not None)]

        (loss, *found), replay = self.recorder(step)
        left = iter(found)
        gradients = [(p, None if p.grad is None else next(left)) for p in parameters]
        tables: list[object] = list(self.model.cache.values())
        return Recording(memory, loss, gradients, replay, tables)

    def compare(self, recording: Recording, batch: Batch, announced_length: int) -> Float[Tensor, ""]:
        """Repeat the step just replayed without the graph, compare the two, and return the loss of the plain one."""
        pairs = [(parameter, gradient) for parameter, gradient in recording.gradients if gradient is not None]
        replayed = [recording.loss.clone(), *(gradient.clone() for _, gradient in pairs)]
        loss = self.plain_step(batch, announced_length)
        expected = [loss, *(torch.zeros_like(p) if p.grad is None else p.grad for p, _ in pairs)]
        for ours, theirs in ((replayed[:1], expected[:1]), (replayed[1:], expected[1:])):
            difference = get_total_norm([a - b for a, b in zip(ours, theirs, strict=True)])
            if not difference <= TOLERANCE * get_total_norm(theirs):  # also true for NaN
                self.give_up("its recording differs from a plain step")
                break
        return loss

    def give_up(self, reason: str) -> None:
        self.usable = False
        self.recordings.clear()
        log.warning("%s trains without a CUDA graph: %s", self.model.encoding.info.name, reason)
