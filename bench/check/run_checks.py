"""Run the checks in another process, which is killed when it exceeds its limits."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from bench.runs.run import now
from tasks import InputError

from .report import Finding, Report
from .supervised_process import SupervisedProcess

TIME_LIMIT_S = 300.0
"""Ten times the time of a slow encoding on an idle machine."""
LOAD_LIMIT_S = 60.0
"""For loading Python, torch and the plugin, before the first check."""
MEMORY_LIMIT_GB = 4.0
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def check_encoding(
    reference: str,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_gb: float = MEMORY_LIMIT_GB,
    only: Sequence[str] = (),
    on_finding: Callable[[Finding], None] = lambda finding: None,
    path: Sequence[str] = (),
) -> Report:
    """Check one encoding in a separate process.

    Arguments:
        reference: a name, a file or an import path; see ``bench.plugins.registry.get_encoding``.
        memory_limit_gb: GiB that the process may hold.
        only: names of checks; all by default.
        on_finding: called with each finding as it arrives.
        path: folders to search for modules before all others.

    Raises:
        InputError: there is no such encoding, it cannot be loaded, or its hooks cannot be called.
    """
    start, tried, stopped = time.monotonic(), False, False
    encoding: dict[str, Any] = {}
    findings: list[Finding] = []
    pending: list[dict[str, Any]] = []

    def add(**fields: Any) -> None:
        findings.append(Finding(**fields))
        on_finding(findings[-1])

    order = {
        "reference": reference,
        "time_limit_s": time_limit_s + LOAD_LIMIT_S,
        "memory_limit_gb": memory_limit_gb,
        "only": list(only),
    }
    with SupervisedProcess("bench.check", order, memory_limit_gb, path, ENVIRONMENT) as process:
        process.limit_time(LOAD_LIMIT_S, f"not loaded after {LOAD_LIMIT_S:g} s")
        for message in process.messages():
            if message["kind"] == "refused":
                raise InputError(message["text"])
            if message["kind"] == "encoding":
                encoding, pending = message, list(message["checks"])
                process.limit_time(time_limit_s, f"still running after {time_limit_s:g} s, the limit for all checks together")
            elif message["kind"] == "finding":
                add(**pending.pop(0) | message["finding"])
            tried |= message["kind"] == "tried"
            stopped |= message["kind"] == "stopped"
        failure = process.failure or "the process ended before its checks"
    if not encoding:
        raise InputError(f"{reference} cannot be checked: {failure}")
    # Before all checks, the hooks are tried; if that ends the process, the check of the interface has failed.
    culprit = "" if stopped or not pending else pending[0]["check"] if tried else "interface"
    for check in pending:
        status, found, advice = "not run", "cannot be judged before the failed check is passed", ""
        if check["check"] == culprit:
            status, found, advice = "failed", failure, "fix this first; the other checks were not run"
        add(**check | {"status": status, "found": found, "advice": advice, "seconds": 0.0})
    fields = {key: encoding[key] for key in ("encoding", "ranking", "source_sha256", "versions", "device")}
    return Report(**fields, finished=now(), seconds=round(time.monotonic() - start, 1), findings=findings)
