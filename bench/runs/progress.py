"""Executors, the events they report, and the display of these."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal, Protocol, Self

from .run import Run

LINE_EVERY_S = 60.0
"""Seconds without output after which a log gets a line."""


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

    @property
    def ends(self) -> bool:
        """Whether the run has ended."""
        return self.kind not in ("started", "step")

    def __str__(self) -> str:
        if not self.ends:
            return f"{self.run}: step {self.step}/{self.run.steps}"
        if self.kind == "locked":
            return f"{self.run}: another process is running it"
        return f"{self.run}: {f'{self.kind.upper()}: ' if self.kind in ('failed', 'lost') else ''}{self.text}"


class Executor(Protocol):
    """Executes runs somewhere: in the local pool, or on a cluster (``slurm``)."""

    def execute(self, runs: Sequence[Run], out: Path, on_event: Callable[[Event], None]) -> None:
        """Execute all runs. A run that fails is reported as an event and does not stop the others.

        Raises:
            KeyboardInterrupt: the user stopped it; the state of unfinished runs has been saved.
        """
        ...


def format_duration(seconds: float) -> str:
    """``1:02:03``: hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))


class Tally:
    """Counts an executor's events, without showing them."""

    def __init__(self, runs: Sequence[Run]):
        self.total = len(runs)
        self.ended = 0
        self.failed: list[Event] = []
        self.lost: list[Event] = []
        self.locked = 0
        self.start = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def on_event(self, event: Event) -> None:
        self.ended += event.ends
        self.locked += event.kind == "locked"
        if event.kind in ("failed", "lost"):
            (self.failed if event.kind == "failed" else self.lost).append(event)

    def line(self) -> str:
        """Ended runs, and the time left if the others take as long."""
        took = time.monotonic() - self.start
        left = f", {format_duration(took / self.ended * (self.total - self.ended))} left" if self.ended else ""
        return f"{self.ended}/{self.total} runs{left}"


def say(text: str) -> None:
    """Print a line; if stdout was closed (``lprime run … | head``), continue without output."""
    try:
        print(text, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)


class Progress(Tally):
    """Prints a line for every run that ends. In between, a terminal shows the last step of a run, and a log does so once a
    minute."""

    def __init__(self, runs: Sequence[Run]):
        from rich.console import Console

        super().__init__(runs)
        console = Console()
        self.live = console.status(self.line()) if console.is_terminal else None
        self.last_line = self.start

    def __enter__(self) -> Self:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        text, now = f"{self.line()}; {event}", time.monotonic()
        if self.live and not event.ends:
            self.live.update(text)
        elif event.ends or now - self.last_line >= LINE_EVERY_S:
            say(text)
            self.last_line = now
