"""Time of one run by phase, for ``lprime run --profile`` and ``make speed``."""

import tempfile
from pathlib import Path

import torch

from bench.training.profiler import profile_phases

from .devices import resolve_device
from .run import Run
from .run_one import run_one

PROFILE_HEADER = ("phase", "s", "share", "ms a step")


def profile_run(run: Run, device: str = "auto") -> tuple[dict[str, float], int]:
    """Execute a run in this process and discard its result.

    Returns:
        Seconds by phase (``profiler.PHASES``), and the number of training steps.
    """
    synchronize = torch.cuda.synchronize if resolve_device(device).type == "cuda" else lambda: None
    with tempfile.TemporaryDirectory() as scratch, profile_phases(synchronize) as clock:
        result = run_one(run, Path(scratch), device)
    return clock.table(), result.steps


def profile_rows(seconds: dict[str, float], steps: int) -> list[tuple[str, str, str, str]]:
    """Table rows: phase, seconds, share of the total and milliseconds per step; the total comes last."""
    total = sum(seconds.values())
    parts = [*seconds.items(), ("together", total)]
    return [(name, f"{s:.2f}", f"{s / total:.1%}", f"{s / max(1, steps) * 1e3:.3f}") for name, s in parts]
