"""Progress of a grid: a live display on a terminal, otherwise lines for a log."""

import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from .executor import Event
from .run import Run

LINE_EVERY_S = 60.0
"""Seconds without output after which a log gets a line."""
MOST_SHOWN = 3
"""Maximum number of active runs on one line of a log."""


def format_duration(seconds: float) -> str:
    """``1:02:03`` or ``2:03``."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"


class Tally:
    """Counts an executor's events; computes speed and remaining time.

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

    def on_event(self, event: Event) -> None:
        run = event.run
        if event.kind in ("started", "step"):
            if event.kind == "step" and (before := self.active.get(run)):
                self.steps_made += max(0, event.step - before)
            self.active[run] = event.step
            return
        if before := self.active.pop(run, 0):
            self.steps_made += max(0, event.step - before)
        self.steps_ended += self.steps[run]
        self.ended += 1
        self.locked += event.kind == "locked"
        if event.kind == "failed":
            self.failed.append(event)
        if event.kind == "lost":
            self.lost.append(event)

    @property
    def steps_done(self) -> int:
        return self.steps_ended + sum(min(step, self.steps[run]) for run, step in self.active.items())

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


@dataclass
class Pace:
    """Progress of an active run since its first report."""

    first: int
    since: float
    """First reported step, and its time."""
    tenth: int
    tenth_since: float
    """The last tenth of the run that it completed, and the time of that."""


class SilentProgress:
    """Only counts."""

    def __init__(self, runs: Sequence[Run], steps: Mapping[Run, int] | None = None):
        self.tally = Tally(runs, steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def on_event(self, event: Event) -> None:
        self.tally.on_event(event)


class PlainProgress(SilentProgress):
    """Prints lines, for logs and pipes: one for every run that ends, one for every tenth of a long run, whose tenths take
    ``LINE_EVERY_S`` or more, and otherwise one for the whole grid if nothing was printed for that time.
    """

    def __init__(self, runs: Sequence[Run], steps: Mapping[Run, int] | None = None):
        super().__init__(runs, steps)
        self.paces: dict[Run, Pace] = {}
        self.last_line = time.monotonic()

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        now = time.monotonic()
        if event.kind not in ("started", "step"):
            self.paces.pop(event.run, None)
            self.say(f"{event.run}: {outcome(event)}", now)
        elif event.kind == "started":
            self.paces.pop(event.run, None)  # of a worker that has ended
        elif self.is_long_tenth(event, now):
            self.say(self.progress(event.run, now), now)
        elif now - self.last_line >= LINE_EVERY_S:
            shown = [self.progress(run, now) for run in list(self.paces)[:MOST_SHOWN]]
            more = len(self.tally.active) - len(shown)
            self.say("; ".join([*shown, *([f"{more} more running"] if more else [])]), now)

    def say(self, text: str, now: float) -> None:
        say(f"[{self.tally.line()}] {text}")
        self.last_line = now

    def is_long_tenth(self, event: Event, now: float) -> bool:
        """Whether the run has just completed a tenth of its steps, which took long."""
        tenth = 10 * event.step // event.run.steps
        pace = self.paces.setdefault(event.run, Pace(event.step, now, tenth, now))
        if tenth <= pace.tenth:
            return False
        took, pace.tenth, pace.tenth_since = now - pace.tenth_since, tenth, now
        return took >= LINE_EVERY_S

    def progress(self, run: Run, now: float) -> str:
        """Step, share and time left of an active run."""
        pace, step = self.paces[run], self.tally.active[run]
        text = f"{run}: step {step}/{run.steps}, {min(1.0, step / run.steps):.0%}"
        if step >= run.steps:
            return f"{text}, evaluation"  # or an extra stage
        if step <= pace.first:
            return text
        return f"{text}, {format_duration((run.steps - step) * (now - pace.since) / (step - pace.first))} left"


class LiveProgress(SilentProgress):
    """Shows a bar for the grid and one for every active run; ended runs scroll by above."""

    def __init__(self, runs: Sequence[Run], steps: Mapping[Run, int] | None = None):
        from rich.progress import BarColumn, Progress, TaskID, TextColumn

        super().__init__(runs, steps)
        self.bars = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"), transient=True)
        self.total_bar = self.bars.add_task("all runs", total=self.tally.steps_total, note="")
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
            self.bars.console.print(f"{run}: {outcome(event)}", markup=False, highlight=False)
        self.bars.update(self.total_bar, completed=self.tally.steps_done, note=self.tally.line())


def progress_display(runs: Sequence[Run], steps: Mapping[Run, int] | None = None) -> SilentProgress:
    """The live display if stdout is a terminal, otherwise lines."""
    return (LiveProgress if sys.stdout and sys.stdout.isatty() else PlainProgress)(runs, steps)
