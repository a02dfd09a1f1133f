"""Executors, the events they report, and the display of these: live on a terminal, otherwise lines for a log."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, Self

from .run import Run

LINE_EVERY_S = 60.0
"""Seconds without output after which a log gets a line."""
MOST_SHOWN = 3
"""Maximum number of active runs on one line of a log."""


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

    def __str__(self) -> str:
        """How the run ended."""
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
    """``1:02:03`` or ``2:03``."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


class Tally:
    """Counts an executor's events, without showing them; computes speed and remaining time.

    Arguments:
        steps: steps that each run makes; by default all of its recipe. See ``shared_training.steps_to_make``.
    """

    def __init__(self, runs: Sequence[Run], steps: Mapping[Run, int] | None = None):
        self.steps = steps or {run: run.steps for run in runs}
        self.total = len(runs)
        self.ended = 0
        self.failed: list[Event] = []
        self.lost: list[Event] = []
        self.locked = 0
        self.steps_total = sum(self.steps.values())
        self.steps_ended = 0
        """Steps of all ended runs, even of those that failed early."""
        self.active: dict[Run, int] = {}
        """Current step of each active run. The first report only sets it: earlier sessions may have made those steps."""
        self.steps_made = 0
        """Steps made since ``start``."""
        self.start = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def on_event(self, event: Event) -> None:
        run, before = event.run, self.active.get(event.run)
        if before and event.kind != "started":
            self.steps_made += max(0, event.step - before)
        if event.kind in ("started", "step"):
            self.active[run] = event.step
            return
        self.active.pop(run, None)
        self.steps_ended += self.steps[run]
        self.ended += 1
        self.locked += event.kind == "locked"
        if event.kind in ("failed", "lost"):
            (self.failed if event.kind == "failed" else self.lost).append(event)

    @property
    def steps_done(self) -> int:
        return self.steps_ended + sum(min(step, self.steps[run]) for run, step in self.active.items())

    def line(self) -> str:
        """Ended runs, training steps per second over all workers, and the time left without the steps of extra stages."""
        rate = self.steps_made / max(1e-9, time.monotonic() - self.start)
        left = f", {format_duration(max(0.0, (self.steps_total - self.steps_done) / rate))} left" if rate else ""
        return f"{self.ended}/{self.total} runs, {rate:.0f} steps/s{left}"


def say(text: str) -> None:
    """Print a line; if stdout was closed (``lprime run … | head``), continue without output."""
    try:
        print(text, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)


class PlainProgress(Tally):
    """Prints lines, for logs and pipes: one for every run that ends, and one if nothing was printed for a minute."""

    last_line = 0.0

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        now, active = time.monotonic(), self.active
        if event.kind not in ("started", "step"):
            text = str(event)
        elif event.kind == "step" and now - max(self.last_line, self.start) >= LINE_EVERY_S:
            shown = [f"{run}: step {step}/{run.steps}" for run, step in list(active.items())[:MOST_SHOWN]]
            text = "; ".join([*shown, *([f"{len(active) - len(shown)} more running"] if len(active) > len(shown) else [])])
        else:
            return
        say(f"[{self.line()}] {text}")
        self.last_line = now


class LiveProgress(Tally):
    """Shows a bar for the grid and one for every active run; ended runs scroll by above."""

    def __init__(self, runs: Sequence[Run], steps: Mapping[Run, int] | None = None):
        from rich.progress import BarColumn, Progress, TaskID, TextColumn

        super().__init__(runs, steps)
        self.bars = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"), transient=True)
        self.total_bar = self.bars.add_task("all runs", total=self.steps_total, note="")
        self.run_bars: dict[Run, TaskID] = {}

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        run = event.run
        if event.kind in ("started", "step"):
            if run not in self.run_bars:
                self.run_bars[run] = self.bars.add_task(str(run), total=run.steps, note="")
            self.bars.update(self.run_bars[run], completed=event.step, note=f"{event.step}/{run.steps}")
        else:
            if run in self.run_bars:
                self.bars.remove_task(self.run_bars.pop(run))
            self.bars.console.print(str(event), markup=False, highlight=False)
        self.bars.update(self.total_bar, completed=self.steps_done, note=self.line())


def progress_display(runs: Sequence[Run], steps: Mapping[Run, int] | None = None) -> Tally:
    """The live display if stdout is a terminal, otherwise lines."""
    return (LiveProgress if sys.stdout and sys.stdout.isatty() else PlainProgress)(runs, steps)
