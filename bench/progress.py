"""How far a grid is: a live display on a terminal, one plain line a run elsewhere."""

import os
import sys
import time
from collections.abc import Sequence

from .events import Event
from .runs import Run


def clock(seconds: float) -> str:
    """``1:02:03`` or ``2:03``."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


class Tally:
    """Counts what executors tell, and knows the speed and the time left."""

    def __init__(self, runs: Sequence[Run]):
        self.total = len(runs)
        self.over = 0
        self.failed: list[Event] = []
        self.lost: list[Event] = []
        self.elsewhere = 0
        self.steps_total = sum(run.steps for run in runs)
        self.steps_gone = 0
        """Of runs that are over, whatever they took."""
        self.at: dict[Run, int] = {}
        """Step of each run under way; its first report counts no speed, since earlier sessions may have made those steps."""
        self.walked = 0
        self.start = time.monotonic()

    def tell(self, event: Event) -> None:
        run = event.run
        if event.kind in ("started", "step"):
            if before := self.at.get(run):
                self.walked += event.step - before
            self.at[run] = event.step
            return
        if before := self.at.pop(run, 0):
            self.walked += max(0, event.step - before)
        self.steps_gone += run.steps
        self.over += 1
        self.elsewhere += event.kind == "elsewhere"
        if event.kind == "failed":
            self.failed.append(event)
        if event.kind == "lost":
            self.lost.append(event)

    @property
    def rate(self) -> float:
        """Training steps a second over all workers, since the start."""
        return self.walked / max(1e-9, time.monotonic() - self.start)

    @property
    def left_s(self) -> float | None:
        steps = self.steps_total - self.steps_gone - sum(self.at.values())
        return max(0.0, steps / self.rate) if self.walked else None  # an extra stage's steps are not counted ahead

    def line(self) -> str:
        left = "" if self.left_s is None else f", {clock(self.left_s)} left"
        return f"{self.over}/{self.total} runs, {self.rate:.0f} steps/s{left}"


def say(text: str) -> None:
    """Print a line; when nobody reads any more (``lprime run … | head``), the work goes on in silence."""
    try:
        print(text, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)


def ended(event: Event) -> str:
    """How a run left, in words."""
    if event.kind == "elsewhere":
        return "another process is at it"
    return {"failed": "FAILED: ", "lost": "LOST: "}.get(event.kind, "") + event.text


class PlainProgress:
    """One line for every run that ends: for logs and pipes."""

    def __init__(self, runs: Sequence[Run]):
        self.tally = Tally(runs)

    def __enter__(self) -> "PlainProgress":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def tell(self, event: Event) -> None:
        self.tally.tell(event)
        if event.kind not in ("started", "step"):
            say(f"[{self.tally.line()}] {event.run}: {ended(event)}")


class LiveProgress:
    """A bar for the grid and one for every run under way; ended runs scroll by above."""

    def __init__(self, runs: Sequence[Run]):
        from rich.progress import BarColumn, Progress, TaskID, TextColumn

        self.tally = Tally(runs)
        self.bars = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"), transient=True)
        self.whole = self.bars.add_task("all runs", total=self.tally.steps_total, note="")
        self.each: dict[Run, TaskID] = {}

    def __enter__(self) -> "LiveProgress":
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def tell(self, event: Event) -> None:
        self.tally.tell(event)
        run = event.run
        if event.kind in ("started", "step"):
            if run not in self.each:
                self.each[run] = self.bars.add_task(str(run), total=run.steps, note="")
            self.bars.update(self.each[run], completed=event.step, note=f"{event.step}/{run.steps}")
        else:
            if run in self.each:
                self.bars.remove_task(self.each.pop(run))
            self.bars.console.print(f"{run}: {ended(event)}", markup=False, highlight=False)
        done = self.tally.steps_gone + sum(self.tally.at.values())
        self.bars.update(self.whole, completed=done, note=self.tally.line())


def display(runs: Sequence[Run]) -> PlainProgress | LiveProgress:
    return LiveProgress(runs) if sys.stdout and sys.stdout.isatty() else PlainProgress(runs)
