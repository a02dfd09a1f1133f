"""Progress of a grid: a live display on a terminal, otherwise one line per finished run."""

import os
import sys
import time
from collections.abc import Sequence

from .executor import Event
from .run import Run


def format_duration(seconds: float) -> str:
    """``1:02:03`` or ``2:03``."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


class Tally:
    """Counts an executor's events; computes speed and remaining time."""

    def __init__(self, runs: Sequence[Run]):
        self.total = len(runs)
        self.ended = 0
        self.failed: list[Event] = []
        self.lost: list[Event] = []
        self.locked = 0
        self.steps_total = sum(run.steps for run in runs)
        self.steps_ended = 0
        """Steps in the recipes of all ended runs, even of those that failed early."""
        self.active: dict[Run, int] = {}
        """Current step of each active run. The first report only sets it: earlier sessions may have made those steps."""
        self.steps_made = 0
        """Steps made since ``start``."""
        self.start = time.monotonic()

    def on_event(self, event: Event) -> None:
        run = event.run
        if event.kind in ("started", "step"):
            if before := self.active.get(run):
                self.steps_made += event.step - before
            self.active[run] = event.step
            return
        if before := self.active.pop(run, 0):
            self.steps_made += max(0, event.step - before)
        self.steps_ended += run.steps
        self.ended += 1
        self.locked += event.kind == "locked"
        if event.kind == "failed":
            self.failed.append(event)
        if event.kind == "lost":
            self.lost.append(event)

    @property
    def steps_done(self) -> int:
        return self.steps_ended + sum(self.active.values())

    @property
    def rate(self) -> float:
        """Training steps per second over all workers, since the start."""
        return self.steps_made / max(1e-9, time.monotonic() - self.start)

    @property
    def remaining_s(self) -> float | None:
        """Estimated seconds to the end, without the steps of extra stages."""
        return max(0.0, (self.steps_total - self.steps_done) / self.rate) if self.steps_made else None

    def line(self) -> str:
        remaining = "" if self.remaining_s is None else f", {format_duration(self.remaining_s)} left"
        return f"{self.ended}/{self.total} runs, {self.rate:.0f} steps/s{remaining}"


def say(text: str) -> None:
    """Print a line; if stdout was closed (``lprime run … | head``), continue without output."""
    try:
        print(text, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)


def outcome(event: Event) -> str:
    """How a run ended, as text."""
    if event.kind == "locked":
        return "another process is running it"
    return {"failed": "FAILED: ", "lost": "LOST: "}.get(event.kind, "") + event.text


class PlainProgress:
    """Prints one line for every run that ends: for logs and pipes."""

    def __init__(self, runs: Sequence[Run]):
        self.tally = Tally(runs)

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def on_event(self, event: Event) -> None:
        self.tally.on_event(event)
        if event.kind not in ("started", "step"):
            say(f"[{self.tally.line()}] {event.run}: {outcome(event)}")


class LiveProgress:
    """Shows a bar for the grid and one for every active run; ended runs scroll by above."""

    def __init__(self, runs: Sequence[Run]):
        from rich.progress import BarColumn, Progress, TaskID, TextColumn

        self.tally = Tally(runs)
        self.bars = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"), transient=True)
        self.total_bar = self.bars.add_task("all runs", total=self.tally.steps_total, note="")
        self.run_bars: dict[Run, TaskID] = {}

    def __enter__(self) -> "LiveProgress":
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def on_event(self, event: Event) -> None:
        self.tally.on_event(event)
        run = event.run
        if event.kind in ("started", "step"):
            if run not in self.run_bars:
                self.run_bars[run] = self.bars.add_task(str(run), total=run.steps, note="")
            self.bars.update(self.run_bars[run], completed=event.step, note=f"{event.step}/{run.steps}")
        else:
            if run in self.run_bars:
                self.bars.remove_task(self.run_bars.pop(run))
            self.bars.console.print(f"{run}: {outcome(event)}", markup=False, highlight=False)
        self.bars.update(self.total_bar, completed=self.tally.steps_done, note=self.tally.line())


def progress_display(runs: Sequence[Run]) -> PlainProgress | LiveProgress:
    return LiveProgress(runs) if sys.stdout and sys.stdout.isatty() else PlainProgress(runs)
