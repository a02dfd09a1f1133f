"""Events of runs, as local pools and jobs report them, and their display."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from tasks import printable

from .run import Run

LINE_EVERY_S = 60.0
"""Seconds without output after which a log gets a line."""
MOST_SHOWN = 20
"""Maximum number of lines shown of a list; the others are only counted."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a run."""

    kind: Literal["step", "finished", "failed", "lost", "locked"]
    """``lost``: its job ended early for reasons other than the run; ``locked``: another process works on the run."""
    run: Run
    step: int = 0
    """Number of training steps so far."""
    text: str = ""
    """``finished``: the scores on one line; ``failed`` and ``lost``: the reason."""

    @property
    def ends(self) -> bool:
        """Whether the run has ended."""
        return self.kind != "step"

    def __str__(self) -> str:
        if not self.ends:
            return f"{self.run}: step {self.step}/{self.run.steps}"
        if self.kind == "locked":
            return f"{self.run}: another process is running it"
        return f"{self.run}: {f'{self.kind.upper()}: ' if self.kind in ('failed', 'lost') else ''}{self.text}"


def format_duration(seconds: float) -> str:
    """``1:02:03``: hours, minutes and seconds."""
    return str(timedelta(seconds=round(seconds)))


def say(text: str) -> None:
    """Print a line; if stdout was closed (``lprime run … | head``), continue without output."""
    try:
        print(text, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)


def shortened(lines: Sequence[str]) -> list[str]:
    """The first lines of a list, and how many more there are."""
    more = len(lines) - MOST_SHOWN
    return [*lines[:MOST_SHOWN], f"… and {more} more"] if more > 0 else [*lines]


def section(title: str, runs: Mapping[Run, str]) -> list[str]:
    """Lines about runs under a heading that counts them; none without runs."""
    return [f"{len(runs)} {title}:", *shortened([f"  {run}: {printable(text)}" for run, text in runs.items()])] if runs else []


class Progress:
    """Counts events, and prints a line for every run that ends. In between, a terminal shows the last step of a run, and a log
    does so once a minute."""

    def __init__(self, runs: Sequence[Run]):
        from rich.console import Console

        self.total = len(runs)
        self.ended = 0
        self.failed: dict[Run, str] = {}
        self.lost: dict[Run, str] = {}
        self.locked = 0
        self.start = self.last_line = time.monotonic()
        self.live = Console(force_terminal=bool(sys.stdout and sys.stdout.isatty())).status(self.line())
        """Shows the last line on a terminal, inside a ``with`` block, and nothing in a log."""

    def on_event(self, event: Event) -> None:
        self.ended += event.ends
        self.locked += event.kind == "locked"
        if event.kind in ("failed", "lost"):
            (self.failed if event.kind == "failed" else self.lost)[event.run] = event.text
        if self.live.console.is_terminal and not event.ends:
            self.live.update(f"{self.line()}; {event}")
        elif event.ends or time.monotonic() - self.last_line >= LINE_EVERY_S:
            say(f"{self.line()}; {event}")
            self.last_line = time.monotonic()

    def line(self) -> str:
        """Ended runs, and the time left if the others take as long."""
        took = time.monotonic() - self.start
        left = f", {format_duration(took / self.ended * (self.total - self.ended))} left" if self.ended else ""
        return f"{self.ended}/{self.total} runs{left}"
