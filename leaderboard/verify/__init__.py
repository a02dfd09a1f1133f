"""``lprime verify``: does a submission keep the rules? Named checks, each with what was expected, what was found, what to do.

::

    reading.py      a stranger's folder as data: sizes first, no links, strict JSON
    subject.py      what is verified, and how checks are named
    contents.py     checks of files, form, hashes, names, source and check report; text.py helps
    grid.py         checks of completeness, ranking, data, scores, parameters
    course.py       checks of training, times and copies
    again.py        runs chosen at random once more; child.py is the process that does so, agreement.py compares

Rules that `lprime check` tells of too, before a run is made, stand in ``bench/check``: words.py and source.py.

All but the last line reads data and runs nothing of what was submitted. It tells what cannot be, not what is not so: whoever
makes numbers up with care is found by ``again.py`` alone.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from bench.check.child import examined
from bench.check.report import Finding, Report
from bench.check.subject import Check
from bench.runs import now
from bench.suite import Suite
from tasks import InputError

from ..markdown import printable
from ..store import read_runs, suites
from ..submission import SUBMISSION
from . import contents, course, grid
from .again import Again, checks
from .reading import read_folder
from .subject import CHECKS, Subject

__all__ = ["Again", "Verification", "verify"]

MODULES = (contents, grid, course)
STATIC = [check for module in MODULES for check in CHECKS if check.run.__module__ == module.__name__]
"""The checks that run nothing of a submission, in their order."""
LONGEST = 800


class Verification(Report):
    """All checks of one submission."""

    kind: ClassVar[str] = "Verification"


def verify(
    folder: Path,
    suite: Suite | None = None,
    published: Path | None = None,
    again: Again | None = None,
    tell: Callable[[Finding], None] = lambda finding: None,
    name: str | None = None,
) -> Verification:
    """Hold one submission to the rules.

    Arguments:
        suite: by default the shipped one that it names.
        published: a leaderboard's folder, whose results nobody may have copied.
        again: what to run once more, if everything else passed. That runs the submitted code.
        tell: called with each finding as it comes.
        name: that the folder will have; by default the one it has.

    Raises:
        InputError: no folder, or no submission in it.
    """
    start = time.monotonic()
    if folder.is_symlink() or not folder.is_dir():
        raise InputError(f"{folder} is no folder; expected a submission such as leaderboard/submissions/my_encoding")
    if not (folder / SUBMISSION).exists():
        raise InputError(f"{folder} holds no {SUBMISSION}; expected a folder that `lprime submit` wrote")
    runs = [run for place in suites(published) for run in read_runs(place)] if published else []
    subject = Subject(name or folder.resolve().name, read_folder(folder), suite, runs)
    findings: list[Finding] = []

    def add(more: Iterable[Finding]) -> None:
        for finding in more:
            findings.append(finding)
            tell(finding)

    add(finding(check, subject) for check in STATIC)
    if again:
        sound = all(f.status == "passed" for f in findings)
        add(finding(check, subject, sound) for check in checks(again))
    return report(subject, findings, time.monotonic() - start)


UNMADE = {"status": "not run", "found": "nothing is run before its data pass", "advice": "", "seconds": 0.0}


def finding(check: Check, subject: Subject, run: bool = True) -> Finding:
    """One check made; what strangers wrote is shown as text on one line."""
    found = examined(check, subject) if run else UNMADE
    shown = {"found": printable(str(found["found"]), LONGEST)}
    return Finding(check=check.name, expected=check.expected, **found | shown)


def report(subject: Subject, findings: list[Finding], seconds: float) -> Verification:
    """What is told of a submission that may not even name itself."""
    from bench.work import device_name, pick, versions

    of = subject.found.get("submission")
    return Verification(
        encoding=printable(of.name if of else subject.name),
        ranking=of.ranking if of else "unknown",
        source_sha256=of.source_sha256 if of else "unknown",
        versions=versions(),
        device=device_name(pick("auto")),
        finished=now(),
        seconds=round(seconds, 1),
        findings=findings,
    )
