"""The heartbeat of a run: its step and speed, in a file that the process that trains it rewrites every few seconds.

Only for display. Whether a run is active depends on its lock: a killed process leaves its heartbeat behind, and the next one
deletes it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from bench.files import write_atomic
from bench.result import Record
from tasks import InputError

HEARTBEAT = "heartbeat.json"
WRITE_EVERY_S = 5.0


class Heartbeat(Record):
    """Progress of an active run, ``heartbeat.json``."""

    step: Annotated[int, Field(ge=0)]
    steps: Annotated[int, Field(ge=1, le=2**40)]
    """All training steps of the run, an extra stage included. At the last step, the run is evaluated."""
    rate: Annotated[float, Field(ge=0, le=1e9)]
    """Training steps per second in this session."""
    at: Annotated[float, Field(ge=0, lt=1e11)]
    """Time of writing, Unix time."""

    @model_validator(mode="after")
    def consistent(self) -> "Heartbeat":
        if self.step > self.steps:
            raise ValueError(f"step {self.step} of {self.steps}")
        return self

    @property
    def share(self) -> float:
        return self.step / self.steps

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds of training left, without the evaluation; None if the speed is unknown."""
        return (self.steps - self.step) / self.rate if self.rate > 1e-9 else None


def read_heartbeat(folder: Path) -> Heartbeat | None:
    """The heartbeat of a run; None if there is none, or it cannot be read or is damaged."""
    try:
        return Heartbeat.model_validate_json((folder / HEARTBEAT).read_bytes())
    except (OSError, ValidationError):
        return None


class HeartbeatWriter:
    """Writes the heartbeat of a run: at the first report, at the last step, and every few seconds in between."""

    def __init__(self, folder: Path, steps: int):
        self.path, self.steps = folder / HEARTBEAT, steps
        self.first: tuple[int, float] | None = None
        """Step and time of the first report of this session."""
        self.step, self.rate = -1, 0.0
        self.wait_until = 0.0

    def report(self, step: int) -> None:
        now = time.monotonic()
        first_step, since = self.first = self.first or (step, now)
        ended = step >= self.steps > self.step
        if step > max(self.step, first_step):
            self.rate = (step - first_step) / max(1e-9, now - since)
        self.step = step
        if now >= self.wait_until or ended:
            self.write(min(step, self.steps))
            # Writing takes at most a fiftieth of the time, however slow the file system.
            self.wait_until = now + max(WRITE_EVERY_S, 50 * (time.monotonic() - now))

    def write(self, step: int) -> None:
        beat = Heartbeat(step=step, steps=self.steps, rate=self.rate, at=time.time())
        with suppress(InputError):  # a full disk is reported by the next checkpoint
            write_atomic(self.path, beat.model_dump_json() + "\n", sync=False)


@contextmanager
def heartbeat(folder: Path, steps: int, report: Callable[[int], None]) -> Iterator[Callable[[int], None]]:
    """Yield a function that writes the run's heartbeat and then calls ``report``; the file is deleted at the end.

    Arguments:
        folder: of the run, which this process has locked.
        steps: all training steps of the run.
    """
    writer = HeartbeatWriter(folder, steps)

    def write_and_report(step: int) -> None:
        writer.report(step)
        report(step)

    with suppress(OSError):
        writer.path.unlink()  # of a killed process
    try:
        yield write_and_report
    finally:
        with suppress(OSError):
            writer.path.unlink()
