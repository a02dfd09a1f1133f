"""Define, register and run named checks."""

import importlib
import signal
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .report import CheckOutcome

MODULES = ("declaration", "contract", "causality", "state", "numbers")


class Fault(Exception):
    """A check failed.

    Arguments:
        found: what was found.
        advice: what to do, replacing the check's general advice.
    """

    def __init__(self, found: str, advice: str = ""):
        super().__init__(found)
        self.advice = advice


class Blocking(Fault):
    """A fault that leaves nothing for other checks to say, such as an error in a hook: they are not run."""


class Undecided(Exception):
    """A check could not decide, for example because it needs a GPU."""


class TimeUp(BaseException):
    """Code ran for too long. An ``except Exception`` in a plugin does not catch it."""


@contextmanager
def time_limit(seconds: float, message: str) -> Iterator[None]:
    """Raise ``TimeUp`` in the line that is running after ``seconds``, in the main thread only. A call into C ends first."""

    def interrupt(*_: object) -> None:
        raise TimeUp(message)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@dataclass(frozen=True)
class Check:
    """One named check."""

    name: str
    expected: str
    advice: str
    """What to do if it fails."""
    run: Callable[[Any], str]
    """Takes the subject and returns what was found; any exception it raises, ``Fault`` or other, fails the check."""

    def outcome(self, status: str, found: str, advice: str = "", seconds: float = 0.0) -> CheckOutcome:
        return CheckOutcome(check=self.name, expected=self.expected, status=status, found=found, advice=advice, seconds=seconds)  # type: ignore[arg-type]


CHECKS: list[Check] = []


def encoding_check(name: str, expected: str, advice: str) -> Callable:
    """A decorator that registers a function as a check."""

    def decorate(run: Callable[[Any], str]) -> Callable[[Any], str]:
        CHECKS.append(Check(name, expected, advice, run))
        return run

    return decorate


def load_checks() -> list[Check]:
    """All checks of an encoding, in the order of ``MODULES`` and of their files."""
    for module in MODULES:
        importlib.import_module(f"{__package__}.{module}")
    return sorted(CHECKS, key=lambda c: MODULES.index(c.run.__module__.rpartition(".")[2]))


def run_check(check: Check, subject: Any, files: Collection[str] = ()) -> tuple[CheckOutcome, bool]:
    """Run one check.

    Arguments:
        files: source files of the plugin, in which an error is located.

    Returns:
        Its outcome; whether the checks after it are worth running.
    """
    start, go_on = time.monotonic(), True
    status, advice = "failed", check.advice
    try:
        found, status, advice = check.run(subject), "passed", ""
    except Fault as fault:
        found, advice, go_on = str(fault), fault.advice or check.advice, not isinstance(fault, Blocking)
    except Undecided as undecided:
        found, status, advice = str(undecided), "undecided", ""
    except (Exception, SystemExit, TimeUp) as error:
        where, kind = place_of(error, files), "" if isinstance(error, TimeUp) else f"{type(error).__name__}: "
        found = f"{where}: {kind}{' '.join(str(error).split()):.500}".removeprefix(": ").removesuffix(": ")
        advice, go_on = "correct that line, then run the checks again", False
    return check.outcome(status, found, advice, round(time.monotonic() - start, 2)), go_on


def place_of(error: BaseException, files: Collection[str]) -> str:
    """The last line of ``files``, or of all files, that was running, as ``my_encoding.py, line 12``; empty if none was."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not files or frame.filename in files]
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""
