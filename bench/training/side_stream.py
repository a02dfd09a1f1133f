"""A second stream of a GPU, for results that are needed last: in a backward pass, the gradients of weights.

A kernel of a small model leaves most of a GPU idle. A CUDA graph that is recorded from two streams runs kernels of both at a
time. Outside of a recording there is only one stream, because launching kernels takes longer than running them.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class SideStream:
    """The second stream of the recording that this process makes now."""

    present: "SideStream | None" = None

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        self.inputs: list[Tensor] = []
        """What its kernels read, kept: the allocator would reuse the memory, because it knows of one stream only."""


def recording() -> bool:
    """Whether there is a second stream now."""
    return SideStream.present is not None


@contextmanager
def side_stream() -> Iterator[None]:
    """Have a second stream during the block, in which a CUDA graph is being recorded; both streams meet at its end."""
    side = SideStream.present = SideStream()
    try:
        side.stream.wait_stream(torch.cuda.current_stream())  # so that the recording includes it
        yield
    finally:
        SideStream.present = None
    torch.cuda.current_stream().wait_stream(side.stream)  # after an error it would hide the first one


@contextmanager
def aside(*inputs: Tensor) -> Iterator[None]:
    """Compute the block on the second stream if there is one. Its results may be read after ``side_stream`` has ended.

    Arguments:
        inputs: all tensors that the block reads and that may be freed before.
    """
    side = SideStream.present
    if side is None:
        yield
        return
    side.inputs += inputs
    side.stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side.stream):
        yield
