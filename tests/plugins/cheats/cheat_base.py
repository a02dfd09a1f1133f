"""What the cheats share."""

import re
from dataclasses import replace

import torch

from bench.encodings import Encoding, Info

HONEST = Info(
    name="honest",
    family="none",
    title="A title",
    authors="Somebody",
    year=2026,
    link="https://example.org/honest",
    formula="s_ij = q_i·k_j/√d",
    past="nothing changes",
    provenance="made for tests",
    shift_invariant=True,
)


class Cheat(Encoding):
    """An encoding whose info is ``HONEST`` with the class's name and the changes given as class arguments."""

    def __init_subclass__(cls, **changes: object):
        cls.info = replace(HONEST, name=re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower(), **changes)
        super().__init_subclass__()


def add_marks(x, numbers):
    """Add a number to each position in half of the channels, so that the norm does not remove it."""
    half = torch.arange(x.shape[-1], device=x.device) < x.shape[-1] // 2
    return x + numbers.to(x)[..., None] * half
