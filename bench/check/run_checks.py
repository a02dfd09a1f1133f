"""Run the checks in one process, in a sandbox if there is one. ``serve`` is the work of that process."""

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from bench.plugins import registry
from bench.plugins.loading import one_line_errors, package_files
from bench.plugins.record import encoding_record
from bench.plugins.references import map_references, parts, references_in
from bench.plugins.source_hash import source_hash
from bench.sealed.process import Channel, SealedError, SealedProcess
from bench.sealed.sandbox import Code, sandbox_fault
from bench.text_rules import unusual_lines
from tasks import InputError, Task

from .checks import FIRST, MODULES, CheckOutcome, Report, load_checks, run_check
from .contract import try_hooks
from .subject import Subject
from .task_rules import TaskSubject

TIME_LIMIT_S = 300.0
"""Twenty times the time of a slow encoding on an idle machine."""
STEP_LIMIT_S = 100
"""Of loading the code, and of each check: a loop without an end is stopped in its line."""
MEMORY_LIMIT_GIB = 6.0
"""Some 2 GiB are address space that libraries reserve without using it."""


def check_encoding(
    reference: str,
    on_finding: Callable[[CheckOutcome], None] = lambda finding: None,
    sandbox: bool | None = None,
) -> Report:
    """Check one encoding, or one task.

    Arguments:
        reference: a name or a file; see ``get_encoding`` and ``get_task`` of ``bench.plugins.registry``.
        on_finding: called with each finding as it arrives.
        sandbox: False runs the code with the caller's rights; None does so where there is no sandbox, and says so on stderr.

    Raises:
        InputError: there is no such encoding, it cannot be loaded, its hooks cannot be called, or there is no sandbox.
    """
    start, checks, readable = time.monotonic(), load_checks(), plugin_paths(reference)
    if sandbox is not False and (fault := sandbox_fault()):
        if sandbox:
            raise InputError(f"expected a sandbox, but {fault}; --unsafe runs the code with your rights")
        print(f"without a sandbox, so the code has your rights: {fault}", file=sys.stderr)
        sandbox = False
    code = Code(reference, readable, sandbox is False, TIME_LIMIT_S, MEMORY_LIMIT_GIB)
    header: dict[str, Any] = {}
    findings: list[CheckOutcome] = []
    try:
        with SealedProcess("bench.check.run_checks", code) as process:
            kind, _, values = process.receive()
            if kind == "refused":
                raise InputError(str(values.get("text")))
            if kind not in [*MODULES]:  # it may be anything
                raise SealedError(f"answered {kind!r:.40}")
            checks = load_checks(kind)
            header = {name: str(values.get(name)) for name in ("encoding", "source_sha256")}
            while len(findings) < len(checks) and not (findings and findings[-1].advice == FIRST):
                findings.append(CheckOutcome.model_validate(process.answer("finding")[1]))
                on_finding(findings[-1])
    except (SealedError, ValidationError) as error:
        if not header:
            raise InputError(f"{reference} cannot be checked: {error}") from None
        findings.append(checks[len(findings)].outcome("failed", str(error), FIRST))
        on_finding(findings[-1])
    findings += [check.outcome("not run", "not run before the failed check is passed") for check in checks[len(findings) :]]
    files = [Path(parts(text)[0]) for text in references_in(reference)]
    unusual = list(unusual_lines({file.name: file.read_bytes() for file in files}))
    return Report(**header, seconds=round(time.monotonic() - start, 1), findings=findings, unusual=unusual)


def serve(channel: Channel, order: dict[str, Any]) -> None:
    """Load the encoding or task of an order, run every check and send the findings one by one; or refuse it in one line."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"still running after {STEP_LIMIT_S} s, the limit")

    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, too_long)
    signal.alarm(STEP_LIMIT_S)
    cls: Any
    subject: Any
    try:
        kind = "task" if registry.is_task(order["reference"]) else "encoding"
        if kind == "task":
            cls, settings = registry.get_task(order["reference"])
            subject = TaskSubject(cls, settings)
            with one_line_errors(cls):
                next(subject.drawn())
        else:
            cls = registry.get_encoding(order["reference"])
            encoding_record(cls)
            subject = Subject(cls)
            try_hooks(subject)
    except InputError as error:
        channel.send("refused", text=str(error))
        return
    channel.send(kind, encoding=registry.own_name(cls), source_sha256=source_hash(cls))
    for check in load_checks(kind):
        signal.alarm(STEP_LIMIT_S)
        outcome = run_check(check, subject)
        channel.send("finding", **outcome.model_dump())
        if outcome.advice == FIRST:
            break


def plugin_paths(reference: str) -> list[Path]:
    """Files of the plugins in the name of an encoding or a task. Runs nothing.

    Raises:
        InputError: a file cannot be read, or there is nothing of that name.
    """
    found: list[Path] = []
    for text in references_in(reference):
        file = Path(parts(text)[0]).absolute()
        if not file.is_file():
            registry.load_reference(text)  # raises, with the nearest match
        found.append(file)
    installed = registry.entry_points() | registry.entry_points(Task)
    for name in installed.keys() & {*registry.NAME.findall(map_references(reference, lambda _: ""))}:
        found += package_files(installed[name].module)[1]
    if not (found or registry.is_task(reference)):
        registry.get_encoding(reference)
    return found
