"""Run the checks: those of the hooks in a sandboxed process, the judge's here."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.plugins import registry
from bench.plugins.loading import Source, read_source
from bench.plugins.references import is_file, map_references, parts, references_in
from bench.runs.run import now
from bench.sealed.process import Code, SealedError, SealedProcess
from bench.sealed.sandbox import sandbox_fault
from tasks import InputError, unknown

from .checks import Check, load_checks, run_check
from .judged import Judged
from .report import CheckOutcome, Report

TIME_LIMIT_S = 300.0
"""Ten times the time of a slow encoding on an idle machine."""
LOAD_LIMIT_S = 60.0
"""For loading Python, torch and the plugin, before the first check."""
GRACE_S = 5.0
"""For the process to name the line that is running when its time is over, before it is ended."""
MEMORY_LIMIT_GB = 4.0
RESERVED_GIB = 2
"""Address space that libraries reserve without using it."""
AFTER_CAUSALITY = ("cutting", "batches", "sealed run")
"""Checks that mostly fail too if an output depends on later tokens."""


def check_encoding(
    reference: str,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_gb: float = MEMORY_LIMIT_GB,
    only: Sequence[str] = (),
    on_finding: Callable[[CheckOutcome], None] = lambda finding: None,
    path: Sequence[str] = (),
    sandbox: bool | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Check one encoding.

    Arguments:
        reference: a name, a file or an import path; see ``bench.plugins.registry.get_encoding``.
        memory_limit_gb: GiB that a process may hold.
        only: names of checks; all by default.
        on_finding: called with each finding as it arrives.
        path: folders to search for modules before all others.
        sandbox: False runs the code with the caller's rights; None does so where there is no sandbox.
        say: called with a line if the code runs without a sandbox though that was not asked for.

    Raises:
        InputError: there is no such encoding or check, it cannot be loaded, its hooks cannot be called, or there is no sandbox.
    """
    start, known = time.monotonic(), {check.name: check for check in load_checks()}
    if missing := [name for name in only if name not in known]:
        raise unknown("check", missing[0], known)
    checks = [check for name, check in known.items() if not only or name in only]
    sources = plugin_sources(reference, path)
    if sandbox is None and (fault := sandbox_fault()):
        say(f"without a sandbox, so the code has your rights: {fault}")
        sandbox = False
    readable = [file for source in sources for file in source.paths]
    readable += [Path(parts(text)[0]).absolute() for text in references_in(reference) if is_file(text)]  # not by its symlinks
    code = Code(
        reference, readable, path, sandbox is False, seconds=time_limit_s + LOAD_LIMIT_S, gib=memory_limit_gb + RESERVED_GIB
    )
    findings: dict[str, CheckOutcome] = {}

    def failed(name: str) -> bool:
        return name in findings and findings[name].status == "failed"

    def add(finding: CheckOutcome) -> None:
        if finding.check in AFTER_CAUSALITY and finding.status == "failed" and failed("causality"):
            finding = finding.model_copy(update={"advice": "pass causality first: this may follow from what it found"})
        findings[finding.check] = finding
        on_finding(finding)

    def judge(names: Sequence[str], judged: Judged) -> None:
        for check in checks:
            if check.name in names:
                fields, worthwhile = run_check(check, judged)
                add(check.finding(fields))
                if not worthwhile:
                    break

    report, go_on = run_hook_checks(code, [c for c in checks if not c.judged], add, time_limit_s)
    judged = Judged(report.encoding, code, [source.files for source in sources])
    judge(["source"], judged)
    if go_on:
        judge(["learning", "sealed run"], judged)
    for check in checks:
        if check.name not in findings:
            found = "cannot be judged before the failed check is passed"
            add(check.finding({"status": "not run", "found": found, "advice": "", "seconds": 0.0}))
    ordered = [findings[check.name] for check in checks]
    return report.model_copy(update={"finished": now(), "seconds": round(time.monotonic() - start, 1), "findings": ordered})


def run_hook_checks(
    code: Code, checks: Sequence[Check], add: Callable[[CheckOutcome], None], time_limit_s: float
) -> tuple[Report, bool]:
    """Run the checks of the hooks in a sandboxed process.

    Arguments:
        add: called with each finding.

    Returns:
        A report without findings; whether all checks have run.

    Raises:
        InputError: the encoding cannot be loaded, or its hooks cannot be called.
    """
    report: Report | None = None
    pending, tried = list(checks), False
    late = f"still running after {time_limit_s:g} s, the limit for all checks together"
    order = {"checks": [check.name for check in checks], "time_limit_s": time_limit_s, "late": late}
    try:
        with SealedProcess("bench.check.child_process", code, **order) as process:
            process.limit_time(LOAD_LIMIT_S, f"not loaded after {LOAD_LIMIT_S:g} s")
            while True:
                kind, _, values = process.receive_any()
                if kind == "refused":
                    raise InputError(str(values.get("text")))
                if kind == "encoding" and report is None:
                    with untrusted():
                        report = Report(**values, finished="", seconds=0.0, findings=[])
                    process.limit_time(time_limit_s + GRACE_S, late)
                elif kind == "finding" and pending:
                    with untrusted():
                        finding = pending[0].finding(values["finding"])
                    del pending[0]
                    add(finding)
                elif kind in ("stopped", "done") and report:
                    return report, kind == "done" and not pending
                tried |= kind == "tried"
    except SealedError as error:
        # Before all checks, the hooks are tried; if that ends the process, the check of the interface has failed.
        culprit = next((check for check in pending if tried or check.name == "interface"), None)
        if report is None or culprit is None:
            raise InputError(f"{code.reference} cannot be checked: {error}") from None
        advice = "fix this first; the other checks were not run"
        add(culprit.finding({"status": "failed", "found": str(error), "advice": advice, "seconds": 0.0}))
        return report, False


@contextmanager
def untrusted() -> Iterator[None]:
    """Report a message with wrong fields in one line: the code of a plugin may have written it.

    Raises:
        SealedError: the message has other fields than expected.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError):
        raise SealedError("sent a message with wrong fields") from None


def plugin_sources(reference: str, path: Sequence[str] = ()) -> list[Source]:
    """The files of each plugin in the name of an encoding, found without running any.

    Raises:
        InputError: a file cannot be read, or there is no encoding of that name.
    """
    sources = [read_source(text, path) for text in references_in(reference)]
    installed = registry.entry_points()
    names = [name for name in registry.NAME.findall(map_references(reference, lambda _: "")) if name in installed]
    sources += [read_source(installed[name][0].value, path) for name in names]
    if not (names or sources):
        registry.get_encoding(reference)
    return [source for source in sources if source.files]
