"""Named checks: define, list and run them, and report what they found."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from bench.plugins.loading import one_line_errors
from bench.result import Record
from tasks import InputError

from .subject import Subject

MODULES = {"encoding": ("contract", "causality", "state", "numbers"), "task": ("task_rules",)}
"""Where the checks are, in their order: a fault is reported before others that follow from it."""
FIRST = "correct that first; the other checks were not run"
"""Advice after which no more checks are run."""
MARK = {"passed": "ok  ", "failed": "FAIL", "not run": "  - "}


class CheckOutcome(Record):
    """The outcome of one check."""

    check: str
    status: Literal["passed", "failed", "not run"]
    expected: str
    found: str
    advice: str
    """What to do if it failed; may be empty."""

    def lines(self) -> Iterator[str]:
        """Text of the finding: up to four lines if the check failed, else one."""
        mark = f"{MARK[self.status]}  {self.check:<13}"
        if self.status != "failed":
            yield mark + self.found
            return
        yield mark.rstrip()
        for label, text in (("expected", self.expected), ("found", self.found), ("to do", self.advice)):
            if text:
                yield f"{'':6}{label:<10}{text}"


class Report(Record):
    """Findings of all checks of one encoding, or of the task of this name."""

    format: Literal[2] = 2
    encoding: str
    source_sha256: str
    """Hash of the source that was checked, as in results."""
    seconds: float
    findings: list[CheckOutcome]
    unusual: list[str] = []
    """What a maintainer should look at in the source, a line each."""

    @property
    def passed(self) -> bool:
        return all(finding.status == "passed" for finding in self.findings)

    def summary(self) -> str:
        names = {status: [f.check for f in self.findings if f.status == status] for status in MARK}
        others = [f"{status}: {', '.join(names[status])}" for status in ("failed", "not run") if names[status]]
        passed = f"{len(names['passed'])} of {len(self.findings)} checks passed in {self.seconds:.0f} s"
        return "; ".join([f"{self.encoding}: {passed}", *others])


class Fault(InputError):
    """A check failed.

    Arguments:
        found: what was found.
        advice: what to do, replacing the check's general advice.
    """

    def __init__(self, found: str, advice: str = ""):
        super().__init__(found)
        self.advice = advice


@dataclass(frozen=True)
class Check:
    """One named check."""

    name: str
    advice: str
    """What to do if it fails."""
    run: Callable[[Subject], str]
    """Takes the subject and returns what was found; any error, ``Fault`` or other, fails the check."""

    def outcome(self, status: str, found: str, advice: str = "") -> CheckOutcome:
        """An outcome; what was expected is the docstring of ``run``."""
        expected = " ".join((self.run.__doc__ or "").split()).removesuffix(".")
        return CheckOutcome(check=self.name, expected=expected, status=status, found=found, advice=advice)  # type: ignore[arg-type]


def check(name: str, advice: str = "") -> Callable[[Callable], Check]:
    """A decorator that makes a function a check. Its docstring says what is expected."""
    return partial(Check, name, advice)


def load_checks(kind: str = "encoding") -> list[Check]:
    """All checks of an encoding or of a ``task``, in the order of ``MODULES`` and of their files."""
    modules = [importlib.import_module(f"{__package__}.{module}") for module in MODULES[kind]]
    return [value for module in modules for value in vars(module).values() if isinstance(value, Check)]


def run_check(one: Check, subject: Subject) -> CheckOutcome:
    """Run one check. If its code raises an error, the advice is ``FIRST``."""
    try:
        with one_line_errors(subject.plugin):
            return one.outcome("passed", one.run(subject))
    except Fault as fault:
        return one.outcome("failed", str(fault), fault.advice or one.advice)
    except InputError as error:
        return one.outcome("failed", str(error), FIRST)
