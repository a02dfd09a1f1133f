"""``lprime verify``: named checks of a submission, each of which reports what it expected, what it found, and what to do.

::

    read_untrusted.py     read a stranger's folder as data: size limits, no links, strict JSON
    submission_checks.py  the data that checks share
    contents.py           checks of files, schema, hashes, names, source and check report; with text_fields.py
    run_grid.py           checks of completeness, ranking class, data, scores and parameters
    training_log.py       checks of losses, times and copied runs
    rerun.py              trains runs again; agreement.py compares the results

Rules that ``lprime check`` applies too, before any run, are in ``bench/text_rules.py`` and ``bench/check/source_rules.py``.

Only ``rerun.py`` runs submitted code, and only it detects carefully invented numbers; all other modules read data and detect
what is impossible.
"""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from bench.check.checks import Check, run_check
from bench.check.report import CheckOutcome, Report
from bench.runs.devices import device_name, package_versions, resolve_device
from bench.runs.run import now
from bench.suites.suite import Suite
from leaderboard import archived_boards, published_folder
from leaderboard.data.store import read_runs, suite_folders
from leaderboard.format import printable
from leaderboard.submission.manifest import SUBMISSION
from tasks import InputError

from . import contents, rerun, run_grid, training_log  # noqa: F401 (rerun registers its checks)
from .read_untrusted import read_folder
from .submission_checks import ALL, CHECKS, NO_RERUN, RERUN_CHECKS, RerunOptions, SubmissionData

__all__ = ["ALL", "RerunOptions", "Verification", "verify_submission"]

MODULES = (contents, run_grid, training_log)
STATIC = [check for module in MODULES for check in CHECKS if check.run.__module__ == module.__name__]
"""The checks that run no submitted code, in their order."""
MAX_FOUND = 800
"""Characters of a finding."""
NOT_RUN = {"status": "not run", "found": "a check of its data failed, so its code is not run", "advice": "", "seconds": 0.0}


class Verification(Report):
    """All checks of one submission."""

    kind: ClassVar[str] = "Verification"


def verify_submission(
    folder: Path,
    suite: Suite | None = None,
    published: Path | None = None,
    options: RerunOptions = NO_RERUN,
    on_finding: Callable[[CheckOutcome], None] = lambda finding: None,
    name: str | None = None,
) -> Verification:
    """Check one submission against the rules.

    Arguments:
        suite: by default the shipped one that it names.
        published: a leaderboard's folder, whose results must not be copied.
        options: what to run again if all other checks pass. This runs the submitted code.
        on_finding: called with each finding as it arrives.
        name: the folder's later name; by default its current one.

    Raises:
        InputError: there is no such folder, or no submission in it.
    """
    start = time.monotonic()
    if folder.is_symlink() or not folder.is_dir():
        raise InputError(f"{folder} is not a folder; expected a submission such as leaderboard/submissions/my_encoding")
    if not (folder / SUBMISSION).exists():
        raise InputError(f"{folder} contains no {SUBMISSION}; expected a folder that `lprime submit` wrote")
    data = SubmissionData(name or folder.resolve().name, read_folder(folder), suite, rerun=options)
    if published:
        board = published_folder(published)
        data.published = [run for place in suite_folders(board) for run in read_runs(place)]
        data.archived = archived_boards(board)
    findings: list[CheckOutcome] = []

    def add(more: Iterable[CheckOutcome]) -> None:
        for finding in more:
            findings.append(finding)
            on_finding(finding)

    add(make_finding(check, data) for check in STATIC)
    wanted = {"check again": options.rerun or options.fresh, "rerun": options.rerun, "fresh tests": options.fresh}
    passed = all(f.status == "passed" for f in findings)
    add(make_finding(check, data, passed) for check in RERUN_CHECKS if wanted[check.name])
    return make_report(data, findings, time.monotonic() - start)


def make_finding(check: Check, data: SubmissionData, run: bool = True) -> CheckOutcome:
    """The outcome of one check; a stranger's text is made printable, on one line."""
    outcome = run_check(check, data)[0] if run else NOT_RUN
    shown = {"found": printable(str(outcome["found"]), MAX_FOUND)}
    return check.finding(outcome | shown)


def make_report(data: SubmissionData, findings: list[CheckOutcome], seconds: float) -> Verification:
    """The report of a submission; its ``submission.json`` may be unreadable."""
    submission = data.parsed.get("submission")
    return Verification(
        encoding=printable(submission.name if submission else data.name),
        ranking=submission.ranking if submission else "unknown",
        source_sha256=submission.source_sha256 if submission else "unknown",
        versions=package_versions(),
        device=device_name(resolve_device("auto")),
        finished=now(),
        seconds=round(seconds, 1),
        findings=findings,
    )
