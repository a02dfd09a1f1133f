"""A second CUDA stream, for results that are needed last: in a backward pass, the gradients of weights.

A kernel of a small model leaves most of a GPU idle. A CUDA graph that is recorded from two streams runs kernels of both at a
time. Outside of a recording there is only one stream, because launching kernels takes longer than running them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class SideStream:
    """The second stream of a recording."""

    active: "SideStream | None" = None
    """That of the recording that this process makes now."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        self.inputs: list[Tensor] = []
        """What its kernels read. The allocator knows of one stream only, and would reuse the memory of tensors that are freed;
        ``Tensor.record_stream`` would keep it just as long, because a recording cannot wait for events."""
        self.parameters: set[int] = set()
        """Addresses of the parameters whose gradients it computes."""


def has_side_stream() -> bool:
    return SideStream.active is not None


@contextmanager
def side_stream() -> Iterator[None]:
    """Have a second stream during the block, in which a CUDA graph is recorded. At the end the present stream waits for it."""
    side = SideStream.active = SideStream()
    try:
        side.stream.wait_stream(torch.cuda.current_stream())  # so that the recording includes it
        yield
    finally:
        SideStream.active = None
    torch.cuda.current_stream().wait_stream(side.stream)  # not after an error, which a second one would hide


@contextmanager
def on_side_stream(parameter: Tensor, *inputs: Tensor) -> Iterator[None]:
    """Compute the gradient of a parameter on the second stream if there is one. Read it only after ``side_stream`` has ended.

    Arguments:
        inputs: what the block reads and may be freed before.

    Raises:
        RuntimeError: the second gradient of the same parameter, which autograd would add to the first one too early.
    """
    side = SideStream.active
    if side is None:
        yield
        return
    if parameter.data_ptr() in side.parameters:
        raise RuntimeError("a layer of the model is used twice in a step")
    side.parameters.add(parameter.data_ptr())
    side.inputs += inputs
    side.stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side.stream):
        yield
