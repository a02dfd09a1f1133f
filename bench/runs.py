"""Runs: one task, one encoding, one seed of a suite; where each lives and how far it is. Files are the only truth.

::

    <out>/<suite>/<task>/<encoding>/seed-<n>/
        result.json               the run is over
        failure.json              it broke; run again only when asked to
        checkpoint.safetensors    it has begun
        lock                      held by the process that works on it
"""

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from tasks import InputError

from .files import clear_debris, write_atomic
from .results import RESULT, Result, first_fault, read_result
from .suite import Suite

CHECKPOINT = "checkpoint.safetensors"
FAILURE = "failure.json"
LOCK = "lock"
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
"""What file systems without locks say. Two processes at one run there do its work twice, and write the same."""
STATES = ("done", "diverged", "failed", "running", "paused", "missing")
State = Literal["done", "diverged", "failed", "running", "paused", "missing"]


class Failure(BaseModel):
    """Why a run broke."""

    error: str
    """One line."""
    traceback: str
    finished: str
    """ISO 8601, UTC."""
    fingerprint: str = ""
    """Of the suite, where it is known."""

    def of(self, suite: Suite) -> bool:
        """A failure of another version of the suite is no failure of this one."""
        return self.fingerprint in ("", suite.fingerprint)


class LockedElsewhere(Exception):
    """Another process works on the run."""


@dataclass(frozen=True)
class Run:
    """One cell of a suite's grid and one seed."""

    suite: Suite = field(hash=False)  # holds lists; equality still compares it
    task: str
    encoding: str
    seed: int

    def __str__(self) -> str:
        return f"{self.task} {self.encoding} seed {self.seed}"

    @property
    def key(self) -> tuple[str, str, int]:
        """Within its suite."""
        return self.task, self.encoding, self.seed

    @property
    def steps(self) -> int:
        return self.suite.recipe_for(self.task).steps

    def folder(self, out: Path) -> Path:
        return Path(self._folder(out))

    def _folder(self, out: Path) -> str:
        """Of a grid of thousands, most of what is asked for is not there, and a path is slow to make."""
        return f"{out}/{self.suite.name}/{self.task}/{self.encoding}/seed-{self.seed}"

    def result(self, out: Path) -> Result | None:
        """The run's result, if it is over.

        Raises:
            InputError: the file is damaged, or belongs to another version of the suite.
        """
        file = f"{self._folder(out)}/{RESULT}"
        if not os.path.exists(file):
            return None
        path = Path(file)
        result = read_result(path)
        found = (result.suite, result.task, result.encoding.name, result.seed)
        if found != (self.suite.name, self.task, self.encoding, self.seed):
            raise InputError(f"{path} holds the result of {' '.join(map(str, found))}; put it where it belongs, or delete it")
        if result.fingerprint != self.suite.fingerprint:
            raise InputError(
                f"{path} was made by suite {self.suite.name} with fingerprint {result.fingerprint}, the suite now has "
                f"{self.suite.fingerprint}; keep the two apart with another --out"
            )
        return result

    def failure(self, out: Path) -> Failure | None:
        file = f"{self._folder(out)}/{FAILURE}"
        if not os.path.lexists(file):
            return None
        path = Path(file)
        try:
            failure = Failure.model_validate_json(path.read_bytes())
            return failure if failure.of(self.suite) else None
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            fault = first_fault(error) if isinstance(error, ValidationError) else error.strerror
            raise InputError(f"{path} is not a failure report ({fault}); delete it to run it again") from None

    def state(self, out: Path) -> State:
        """How far the run is, read off its folder."""
        if result := self.result(out):
            return result.status
        folder = self.folder(out)
        if not folder.exists():
            return "missing"
        if locked(folder):
            return "running"
        if self.failure(out):
            return "failed"
        return "paused" if (folder / CHECKPOINT).exists() else "missing"

    def fail(self, out: Path, error: str, traceback: str = "") -> None:
        """Leave a failure report."""
        failure = Failure(error=error, traceback=traceback, finished=now(), fingerprint=self.suite.fingerprint)
        write_atomic(self.folder(out) / FAILURE, failure.model_dump_json(indent=1) + "\n")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def plan(
    suite: Suite, encodings: Sequence[str] | None = None, tasks: Sequence[str] | None = None, seeds: Sequence[int] | None = None
) -> list[Run]:
    """The runs of a suite, or of a part of it: all encodings and tasks of one seed before the next seed.

    Raises:
        InputError: a task the suite does not have, a negative seed. (Encodings are looked up where they are run.)
    """
    for task in tasks or []:
        suite.spec(task)
    for seed in seeds or []:
        if seed < 0:
            raise InputError(f"a seed must be 0 or more, got {seed}")
    return [
        Run(suite, task, encoding, seed)
        for seed in dict.fromkeys(seeds or suite.seeds)
        for task in dict.fromkeys(tasks or [t.task for t in suite.tasks])
        for encoding in dict.fromkeys(encodings or suite.encoding_names)
    ]


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold a run's folder; the lock goes with the process, however it ends.

    Raises:
        LockedElsewhere: another process holds it.
        InputError: the folder cannot be written.
    """
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}") from error
    try:
        for attempt in range(20):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno in NO_LOCKS:
                    break
                if not isinstance(error, BlockingIOError):
                    raise InputError(f"cannot lock {folder}: {error.strerror or error}") from error
                # A status command may be looking at this very moment; a run holds its lock for longer.
                if attempt == 19:
                    raise LockedElsewhere(str(folder)) from None
                time.sleep(0.02)
        clear_debris(folder)
        yield
        path.unlink(missing_ok=True)
    finally:
        os.close(handle)


def locked(folder: Path) -> bool:
    """Does a process hold this run's folder?"""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks
    finally:
        os.close(handle)


def check_out(out: Path) -> None:
    """Fail at once, not after minutes of training, where results could not be written.

    Raises:
        InputError: ``out`` is not a folder that can be written.
    """
    probe = out / f".probe-{os.getpid()}"
    write_atomic(probe, json.dumps(now()))
    probe.unlink()
