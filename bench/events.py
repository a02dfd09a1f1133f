"""What an executor tells while it works through runs, and the interface every executor has."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from .runs import Run


@dataclass(frozen=True)
class Event:
    """Something that happened to a run."""

    kind: Literal["started", "step", "finished", "failed", "lost", "elsewhere"]
    """``lost``: what worked on it ended without it, by no fault of the run; ``elsewhere``: another process works on it."""
    run: Run
    step: int = 0
    """Training steps done so far."""
    text: str = ""
    """``finished``: the scores on one line; ``failed`` and ``lost``: the reason."""


class Executor(Protocol):
    """Works through runs somewhere: the local pool here, a cluster's queue in ``slurm``."""

    def execute(self, runs: Sequence[Run], out: Path, tell: Callable[[Event], None]) -> None:
        """Take every run to its end. A run that fails is told and left; it never stops the others.

        Raises:
            KeyboardInterrupt: the user stopped it; everything under way has been saved.
        """
        ...
