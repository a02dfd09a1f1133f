"""Define, register and run named checks."""

import importlib
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

MODULES = (
    "declaration", "causality", "batch_independence", "statefulness", "hook_contract", "side_effects", "finite_numbers",
    "short_training",
)  # fmt: skip


class Fault(Exception):
    """A check failed.

    Arguments:
        found: what was found.
        advice: what to do, replacing the check's general advice.
    """

    def __init__(self, found: str, advice: str = ""):
        super().__init__(found)
        self.advice = advice


class Skipped(Exception):
    """A check could not run because another one, which it depends on, failed."""


@dataclass(frozen=True)
class Check:
    """One named check."""

    name: str
    expected: str
    advice: str
    """What to do if it fails."""
    run: Callable[[Any], str]
    """Takes the subject and returns what was found; any exception it raises, ``Fault`` or other, fails the check."""


def register(checks: list[Check], name: str, expected: str, advice: str) -> Callable:
    """A decorator that appends a function to ``checks``."""

    def decorate(run: Callable[[Any], str]) -> Callable[[Any], str]:
        checks.append(Check(name, expected, advice, run))
        return run

    return decorate


CHECKS: list[Check] = []
encoding_check: Callable[..., Callable] = partial(register, CHECKS)


def load_checks() -> list[Check]:
    """All checks of an encoding, in the order of ``MODULES`` and of their files."""
    for module in MODULES:
        importlib.import_module(f"{__package__}.{module}")
    return sorted(CHECKS, key=lambda c: MODULES.index(c.run.__module__.rpartition(".")[2]))


def run_check(check: Check, subject: Any, files: Collection[str] = ()) -> dict[str, Any]:
    """Run one check: its status, what it found, what to do, and its seconds.

    Arguments:
        files: source files of the plugin, in which an error is located.
    """
    start = time.monotonic()
    status, advice = "failed", check.advice
    try:
        found, status, advice = check.run(subject), "passed", ""
    except Fault as fault:
        found, advice = str(fault), fault.advice or check.advice
    except Skipped as skipped:
        found, status, advice = str(skipped), "not run", ""
    except (Exception, SystemExit) as error:
        found = error_line(error, files)
    return {"status": status, "found": found, "advice": advice, "seconds": round(time.monotonic() - start, 2)}


def error_line(error: BaseException, files: Collection[str]) -> str:
    """An error on one line, with the last line of ``files`` that was running."""
    frames = traceback.extract_tb(error.__traceback__)
    plugin_frames = [frame for frame in frames if frame.filename in files] or list(frames)
    where = f" ({Path(plugin_frames[-1].filename).name}, line {plugin_frames[-1].lineno})" if plugin_frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split()):.500}{where}"
