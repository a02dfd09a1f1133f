"""The interface of executors, and the events they report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from .run import Run


@dataclass(frozen=True)
class Event:
    """Something that happened to a run."""

    kind: Literal["started", "step", "finished", "failed", "lost", "locked"]
    """``lost``: its job ended early for reasons other than the run; ``locked``: another process works on the run."""
    run: Run
    step: int = 0
    """Number of training steps so far."""
    text: str = ""
    """``finished``: the scores on one line; ``failed`` and ``lost``: the reason."""


class Executor(Protocol):
    """Executes runs somewhere: in the local pool, or on a cluster (``slurm``)."""

    def execute(self, runs: Sequence[Run], out: Path, on_event: Callable[[Event], None]) -> None:
        """Execute all runs. A run that fails is reported as an event and does not stop the others.

        Raises:
            KeyboardInterrupt: the user stopped it; the state of unfinished runs has been saved.
        """
        ...
