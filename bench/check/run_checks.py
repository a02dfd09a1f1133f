"""Run the checks in a process in a sandbox."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.plugins import registry
from bench.plugins.loading import importable_from, package_files
from bench.plugins.references import map_references, parts, references_in
from bench.runs.run import now
from bench.sealed.process import SealedError, SealedProcess
from bench.sealed.sandbox import Code, sandbox_fault
from tasks import InputError, unknown

from .checks import Check, load_checks
from .report import CheckOutcome, Report
from .unusual import unusual_lines

TIME_LIMIT_S = 300.0
"""Twenty times the time of a slow encoding on an idle machine."""
LOAD_LIMIT_S = 60.0
"""For loading Python, torch and the plugin, before the first check."""
GRACE_S = 5.0
"""For the process to name the line that is running when its time is over, before it is ended."""
MEMORY_LIMIT_GB = 4.0
RESERVED_GIB = 2
"""Address space that libraries reserve without using it."""
AFTER_CAUSALITY = ("cutting", "batches")
"""Checks that mostly fail too if an output depends on later tokens."""


def check_encoding(
    reference: str,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_gb: float = MEMORY_LIMIT_GB,
    only: Sequence[str] = (),
    on_finding: Callable[[CheckOutcome], None] = lambda finding: None,
    sandbox: bool | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Check one encoding.

    Arguments:
        reference: a name or a file; see ``bench.plugins.registry.get_encoding``.
        memory_limit_gb: GiB that the process may hold.
        only: names of checks; all by default.
        on_finding: called with each finding as it arrives.
        sandbox: False runs the code with the caller's rights; None does so where there is no sandbox.
        say: called with a line if the code runs without a sandbox though that was not asked for.

    Raises:
        InputError: there is no such encoding or check, it cannot be loaded, its hooks cannot be called, or there is no sandbox.
    """
    start, known = time.monotonic(), {check.name: check for check in load_checks()}
    if missing := [name for name in only if name not in known]:
        raise unknown("check", missing[0], known)
    checks = [check for name, check in known.items() if not only or name in only]
    readable = plugin_paths(reference)
    if sandbox is None and (fault := sandbox_fault()):
        say(f"without a sandbox, so the code has your rights: {fault}")
        sandbox = False
    limits = {"seconds": time_limit_s + LOAD_LIMIT_S, "gib": memory_limit_gb + RESERVED_GIB}
    code = Code(reference, readable, sandbox is False, **limits)
    findings: dict[str, CheckOutcome] = {}

    def add(finding: CheckOutcome) -> None:
        causality = findings.get("causality")
        if finding.check in AFTER_CAUSALITY and finding.status == "failed" and causality and causality.status == "failed":
            finding = finding.model_copy(update={"advice": "pass causality first: this may follow from what it found"})
        findings[finding.check] = finding
        on_finding(finding)

    report = run_in_process(code, checks, add, time_limit_s)
    for check in checks:
        if check.name not in findings:
            add(check.outcome("not run", "not run before the failed check is passed"))
    files = [Path(parts(text)[0]) for text in references_in(reference)]
    unusual = unusual_lines({file.name: file.read_bytes() for file in files})
    ordered = [findings[check.name] for check in checks]
    seconds = round(time.monotonic() - start, 1)
    return report.model_copy(update={"finished": now(), "seconds": seconds, "findings": ordered, "unusual": unusual})


def run_in_process(code: Code, checks: Sequence[Check], add: Callable[[CheckOutcome], None], time_limit_s: float) -> Report:
    """Run the checks in a sandboxed process, whose messages are read as untrusted data.

    Arguments:
        add: called with each finding.

    Returns:
        A report without findings.

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
                kind, _, values = process.receive()
                if kind == "refused":
                    raise InputError(str(values.get("text")))
                try:
                    if kind == "encoding" and report is None:
                        report = Report(**values, finished="", seconds=0.0, findings=[])
                        process.limit_time(time_limit_s + GRACE_S, late)
                    elif kind == "finding" and pending:
                        fields = {key: values["finding"][key] for key in ("status", "found", "advice", "seconds")}
                        finding = pending[0].outcome(**fields)
                        del pending[0]
                        add(finding)
                    elif kind == "done" and report:
                        return report
                except (LookupError, TypeError, ValueError):
                    raise SealedError("sent a message with wrong fields") from None
                tried |= kind == "tried"
    except SealedError as error:
        # Before all checks, the hooks are tried; if that ends the process, the check of the interface has failed.
        culprit = next((check for check in pending if tried or check.name == "interface"), None)
        if report is None or culprit is None:
            raise InputError(f"{code.reference} cannot be checked: {error}") from None
        add(culprit.outcome("failed", str(error), "fix this first; the other checks were not run"))
        return report


def plugin_paths(reference: str) -> list[Path]:
    """Files and folders that the plugins in the name of an encoding may import. Runs nothing.

    Raises:
        InputError: a file cannot be read, or there is no encoding of that name.
    """
    found: list[Path] = []
    for text in references_in(reference):
        file = Path(parts(text)[0]).absolute()
        if not file.is_file():
            registry.load_reference(text)  # raises, with the nearest match
        found += importable_from(file)
    installed = registry.entry_points()
    for name in installed.keys() & {*registry.NAME.findall(map_references(reference, lambda _: ""))}:
        found += package_files(installed[name].module)[1]
    if not found:
        registry.get_encoding(reference)
    return found
