"""Forward and backward of a training step as one recording that a GPU plays back: a CUDA graph.

A small model keeps a GPU waiting, since each of its hundreds of kernels takes longer to call than to run. A recording is one
call; it asks for shapes, and places in memory, that never change. So every step is padded to the size announced
(``batches.fixed_batch``), and its examples are copied to where those of the first step were. The optimizer stays outside: two
vectors long, it is few kernels already.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .batches import Batch
from .model import Decoder

log = logging.getLogger(__name__)

Work = Callable[[], list[Tensor]]
"""Makes tensors out of others that stay where they are."""
Recorder = Callable[[Work], tuple[list[Tensor], Callable[[], Any]]]
"""From work to the tensors it makes, and to what makes them again in the same place."""
Plain = Callable[[Batch, int], Float[Tensor, ""]]
"""A step without recording: from a batch and the tokens announced to the loss, with gradients left in the parameters."""

WARM_UP = 3
"""Times that work is done before it is recorded: libraries choose their kernels, and the model makes its tables."""
TOLERANCE = 0.02
"""How far a recording may be from a plain step, as a share of loss and gradient: bf16 has 8 bits."""


def cuda_graph(work: Work) -> tuple[list[Tensor], Callable[[], Any]]:
    """Warmed up on a stream of its own, then recorded (torch's notes on CUDA semantics, "Whole-network capture")."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    # The outer block: where recording fails, torch leaves its own stream the current one.
    with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
        made = work()
    return made, graph.replay


@dataclass
class Recording:
    """Steps of one shape."""

    batch: Batch
    """Where their examples are put."""
    loss: Float[Tensor, ""]
    gradients: list[tuple[nn.Parameter, Tensor]]
    replay: Callable[[], Any]
    tables: list[object]
    """What the model made ahead, places and masks, and the recording reads: kept from being freed."""
    plays: int = 0

    def play(self, batch: Batch) -> Float[Tensor, ""]:
        for place, given in zip(inputs(self.batch), inputs(batch), strict=True):
            place.copy_(given, non_blocking=True)
        self.replay()
        for parameter, gradient in self.gradients:
            parameter.grad = gradient
        self.plays += 1
        return self.loss


class Graphed:
    """Steps by recordings, one for each shape, as long as they can be trusted.

    The second step of each shape is done both ways: a recording is deaf to what a hook took from the first step by way of the
    CPU. Where the two differ, or recording fails (a hook waits for a number from the GPU, memory runs out), or the encoding
    draws, ``trusted`` turns False, which is for the caller to ask.

    Arguments:
        plain: a step as it is done without.
        recorder: another one than ``cuda_graph`` where a test has no GPU.
    """

    def __init__(self, model: Decoder, plain: Plain, recorder: Recorder = cuda_graph):
        self.model, self.plain, self.recorder = model, plain, recorder
        self.recordings: dict[tuple[int, ...], Recording] = {}
        self.trusted = not model.encoding.info.random

    def __call__(self, batch: Batch, nominal: int) -> Float[Tensor, ""]:
        """The loss, which holds until the next call, with gradients left in the parameters.

        Arguments:
            batch: by ``fixed_batch``, on the CPU.
            nominal: tokens announced.
        """
        try:
            return self.played(batch, nominal)
        except RuntimeError as error:
            # Of a recording that broke off, the first error says why; the last, that it broke off.
            why = f"it cannot be recorded: {str(error.__context__ or error).splitlines()[0]}"
        # Only now, with the failed step and what it held gone.
        self.leave(why)
        return self.afresh(batch, nominal)

    def played(self, batch: Batch, nominal: int) -> Float[Tensor, ""]:
        key = (nominal, *batch.tokens[0].shape, len(batch.places))
        if key not in self.recordings:
            self.recordings[key] = self.record(batch, nominal)
        recording = self.recordings[key]
        self.forget()
        loss = recording.play(batch)
        return loss if recording.plays != 2 else self.compared(recording, batch, nominal)

    def forget(self) -> None:
        for parameter in self.model.parameters():
            parameter.grad = None

    def afresh(self, batch: Batch, nominal: int) -> Float[Tensor, ""]:
        """A plain step."""
        self.forget()
        return self.plain(batch.to(self.model.embedding.weight.device), nominal)

    def record(self, batch: Batch, nominal: int) -> Recording:
        device = self.model.embedding.weight.device
        # All of it, so that `to` has nothing to copy while it is recorded.
        tokens, places, targets, owner = (part.to(device, copy=True) for part in (*inputs(batch), batch.owner))
        kept = Batch((tokens,), batch.layout, places, targets, owner, batch.count)
        members = list(self.model.parameters())

        def work() -> list[Tensor]:
            loss = self.afresh(kept, nominal)
            return [loss, *(p.grad for p in members if p.grad is not None)]

        (loss, *gradients), replay = self.recorder(work)
        reached = [p for p in members if p.grad is not None]
        return Recording(kept, loss, list(zip(reached, gradients, strict=True)), replay, list(self.model.known.values()))

    def compared(self, recording: Recording, batch: Batch, nominal: int) -> Float[Tensor, ""]:
        """The step that was just played, done plainly; that is what counts."""
        played = [recording.loss.clone(), *(gradient.clone() for _, gradient in recording.gradients)]
        loss = self.afresh(batch, nominal)
        expected = [loss, *(torch.zeros_like(p) if p.grad is None else p.grad for p, _ in recording.gradients)]
        for ours, theirs in ((played[:1], expected[:1]), (played[1:], expected[1:])):
            off = together([a - b for a, b in zip(ours, theirs, strict=True)])
            if not off <= TOLERANCE * together(theirs):  # nor where it is no number
                self.leave("its recording differs from a plain step")
                break
        return loss

    def leave(self, why: str) -> None:
        self.trusted = False
        self.recordings.clear()
        log.warning("%s trains without a CUDA graph: %s", self.model.encoding.info.name, why)


def inputs(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """All that differs from step to step."""
    return batch.tokens[0], batch.places, batch.targets


def together(parts: list[Tensor]) -> Tensor:
    """The norm of tensors taken as one vector."""
    return torch.stack([torch.linalg.vector_norm(part.float()) for part in parts]).norm()
