"""The process that works on a run: lock files, so that there is only one, and its heartbeat, the step it has reached.

There are two locks, because a run of another encoding that shares the training may train it: see ``shared_training``. The
heartbeat is only for display. Whether a run is active depends on its lock: a killed process leaves its heartbeat behind.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from bench.files import NotWritten, remove_stale_files, try_lock
from bench.result import Positive, Record
from tasks import InputError

LOCK, TRAINING_LOCK = "lock", "training.lock"
WRITES = {LOCK: ".json", TRAINING_LOCK: ".safetensors"}
"""Files that the holder of each lock writes, by extension."""
LOCK_WAIT_S = 0.35
"""Longer than a status command holds the lock while probing it, much shorter than a run."""
HEARTBEAT = "heartbeat.json"
WRITE_EVERY_S = 5.0


class LockedElsewhere(Exception):
    """Another process works on the run."""


@contextmanager
def lock_run(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Lock a run's folder; the lock is released when the block or the process ends, however it ends.

    Arguments:
        name: ``LOCK`` or ``TRAINING_LOCK``.

    Raises:
        LockedElsewhere: another process holds it.
        NotWritten: the folder cannot be written.
        InputError: its file system has no locks.
    """
    path = folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise NotWritten(f"cannot write {folder}: {error.strerror or error}") from error
    with file:
        try:
            ours = try_lock(file, LOCK_WAIT_S) and os.path.samestat(os.fstat(file.fileno()), os.stat(path))
        except FileNotFoundError:  # its last holder deleted it while we waited
            ours = False
        except OSError as error:
            raise InputError(f"cannot lock {folder}: {error.strerror or error}") from error
        if not ours:
            raise LockedElsewhere(str(folder))
        remove_stale_files(folder, WRITES[name])
        yield
        path.unlink(missing_ok=True)


@contextmanager
def lock_training(folder: Path, at_step: Callable[[int], None]) -> Iterator[None]:
    """Lock the training of a run's folder, as soon as no other process trains there.

    Arguments:
        at_step: called about three times a second meanwhile, with 0; may raise to stop waiting. See ``heartbeat``.
    """
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lock_run(folder, TRAINING_LOCK))
                break
            except LockedElsewhere:
                at_step(0)
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process works on this run."""
    try:
        with open(folder / LOCK, "rb") as file:
            return not try_lock(file, shared=True)
    except OSError:
        return False


class Heartbeat(Record):
    """Progress of an active run, ``heartbeat.json``."""

    step: Annotated[int, Field(ge=0)]
    steps: Positive
    """All training steps of the run, an extra stage included. At the last step, the run is evaluated."""
    rate: Annotated[float, Field(ge=0)]
    """Training steps per second since this session's first step."""
    at: Annotated[float, Field(ge=0)]
    """Time of writing, Unix time."""


def read_heartbeat(folder: Path) -> Heartbeat | None:
    """The heartbeat of a run; None if there is none, or it cannot be read or is damaged."""
    try:
        return Heartbeat.model_validate_json((folder / HEARTBEAT).read_bytes())
    except (OSError, ValidationError):
        return None


@contextmanager
def heartbeat(folder: Path, steps: int, should_stop: Callable[[], bool]) -> Iterator[Callable[[int], None]]:
    """Yield a function for the loops of a run to call with the step reached, after every step and before every test batch.

    It writes the run's heartbeat, at first and every few seconds, or raises ``Stopped`` if ``should_stop`` says so.

    Arguments:
        folder: of the run, which this process has locked.
        steps: all training steps of the run.
    """
    from bench.training.train import Stopped  # loads torch, which readers of heartbeats do not need

    path, first, since, written = folder / HEARTBEAT, 0, 0.0, 0.0

    def at_step(step: int) -> None:
        nonlocal first, since, written
        if should_stop():
            raise Stopped
        now = time.monotonic()
        if not first:  # also called with 0 while the run waits
            first, since = step, now
        if not written or now - written >= WRITE_EVERY_S:
            written = now
            beat = Heartbeat(step=step, steps=steps, rate=(step - first) / max(1e-9, now - since), at=time.time())
            with suppress(OSError):  # a full disk is reported by the next checkpoint
                path.write_text(beat.model_dump_json() + "\n")  # readers skip a half-written one

    try:
        yield at_step
    finally:
        with suppress(OSError):
            path.unlink()
