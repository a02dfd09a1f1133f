"""Where the time of one run goes: ``lprime run --profile``, and a table of ``make speed``."""

import tempfile
from pathlib import Path

import torch

from .phases import clocked
from .runs import Run
from .work import Device, execute, pick

HEADER = ("phase", "s", "share", "ms a step")


def profile(run: Run, device: Device = "auto") -> tuple[dict[str, float], int]:
    """Make a run here, in this process, and throw its result away.

    Returns:
        Seconds by phase (``phases.PHASES``), and training steps.
    """
    on_gpu = pick(device).type == "cuda"
    with tempfile.TemporaryDirectory() as scratch, clocked(torch.cuda.synchronize if on_gpu else lambda: None) as clock:
        result = execute(run, Path(scratch), device)
    return clock.table(), result.steps


def rows(seconds: dict[str, float], steps: int) -> list[tuple[str, str, str, str]]:
    """Phase, seconds, share of all and milliseconds a step; last of all their sum."""
    total = sum(seconds.values())
    parts = [*seconds.items(), ("together", total)]
    return [(name, f"{s:.2f}", f"{s / total:.1%}", f"{s / max(1, steps) * 1e3:.3f}") for name, s in parts]
