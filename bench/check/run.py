"""The checks from outside: a process of its own for the plugin, ended when it takes too long or too much."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tasks import InputError

from ..runs import now
from .report import Finding, Report

TIME_LIMIT_S = 300.0
"""Ten times what a slow encoding takes on an idle machine."""
LOAD_LIMIT_S = 60.0
"""For Python, torch and the plugin to be loaded, before the first check."""
MEMORY_LIMIT_GB = 4.0
POLL_S = 0.05


def check(
    reference: str,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_gb: float = MEMORY_LIMIT_GB,
    only: Sequence[str] = (),
    tell: Callable[[Finding], None] = lambda finding: None,
    path: Sequence[str] = (),
) -> Report:
    """Put one encoding through the checks, in a process of its own.

    Arguments:
        reference: a name, a file or an import path, as ``bench.encodings.get`` takes it.
        memory_limit_gb: GiB that the process may hold.
        only: names of checks; all by default.
        tell: called with each finding as it comes.
        path: folders where the process finds modules, before all others.

    Raises:
        InputError: there is no such encoding, or it cannot be loaded.
    """
    start = time.monotonic()
    child = Child(reference, time_limit_s, memory_limit_gb, only, path)
    about: dict[str, Any] = {}
    findings: list[Finding] = []
    waiting: list[dict[str, Any]] = []

    def found(**fields: Any) -> None:
        findings.append(Finding(**fields))
        tell(findings[-1])

    try:
        for message in child.messages():
            if message["kind"] == "refused":
                raise InputError(message["text"])
            if message["kind"] == "about":
                about = message
                child.begin()
                waiting = list(message["checks"])
            elif message["kind"] == "finding":
                expected = waiting.pop(0)
                found(**expected | message["finding"])
            elif message["kind"] == "end":
                break
        reason = child.reason or "the process stopped before its time"
    finally:
        child.end()
    if not about:
        raise InputError(f"{reference} cannot be checked: {reason}")
    for n, missed in enumerate(waiting):
        status, text = ("failed", reason) if n == 0 else ("not run", "the checks ended before it")
        advice = "mend this first; the checks after it were not run" if n == 0 else ""
        found(**missed | {"status": status, "found": text, "advice": advice, "seconds": 0.0})
    rest = {key: about[key] for key in ("encoding", "ranking", "source_sha256", "versions", "device")}
    return Report(**rest, finished=now(), seconds=round(time.monotonic() - start, 1), findings=findings)


class Child:
    """The process, and the pipe through which it tells."""

    def __init__(
        self, reference: str, time_limit_s: float, memory_limit_gb: float, only: Sequence[str], path: Sequence[str] = ()
    ):
        self.time_limit_s, self.memory_limit_gb = time_limit_s, memory_limit_gb
        self.deadline, self.late = time.monotonic() + LOAD_LIMIT_S, f"not loaded after {LOAD_LIMIT_S:g} s"
        self.reason = ""
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        self.pipe, theirs = os.pipe()
        orders = {
            "reference": reference,
            "time_limit_s": time_limit_s + LOAD_LIMIT_S,
            "memory_limit_gb": memory_limit_gb,
            "only": list(only),
        }
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        try:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "bench.check",
                    str(theirs),
                    json.dumps(orders),
                ],  # -P: this folder may have a tasks/
                pass_fds=[theirs],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.errors,
                env=environment | {"PYTHONPATH": os.pathsep.join([*path, *filter(None, sys.path)])},
                start_new_session=True,  # so that whatever it starts can be ended with it
            )
        finally:
            os.close(theirs)

    def begin(self) -> None:
        """The checks begin, and with them their time."""
        self.deadline = time.monotonic() + self.time_limit_s
        self.late = f"still at it after {self.time_limit_s:g} s, the limit for all checks together"

    def messages(self) -> Iterator[dict[str, Any]]:
        """What it tells, until it ends or has to be ended; ``reason`` then says why."""
        rest = b""
        while True:
            if select.select([self.pipe], [], [], POLL_S)[0]:
                data = os.read(self.pipe, 2**16)
                if not data:
                    self.reason = self.death()
                    return
                *lines, rest = (rest + data).split(b"\n")
                try:
                    yield from map(json.loads, lines)
                except ValueError:
                    self.reason = "something else than the checks wrote into their pipe"
                    return
            if time.monotonic() > self.deadline:
                self.reason = self.late
                return
            if self.held() > self.memory_limit_gb * 2**30:
                self.reason = f"took more than {self.memory_limit_gb:g} GiB of memory, the limit"
                return

    def held(self) -> int:
        """Bytes in memory; 0 where the system does not tell."""
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def death(self) -> str:
        """How it ended by itself, with the last thing it printed."""
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it stopped telling"
        self.errors.seek(max(0, os.fstat(self.errors.fileno()).st_size - 4096))
        last = self.errors.read().decode(errors="replace").strip().splitlines()[-1:]
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"its process died ({how})" + (f": {last[0]:.300}" if last else "")

    def end(self) -> None:
        """End it and all it has started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.pipe)
        self.errors.close()
