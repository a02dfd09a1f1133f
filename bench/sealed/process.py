"""A sandboxed process that answers messages, with limits on its time and memory."""

import os
import socket
import subprocess
import tempfile
import time
from typing import Any, Self

import numpy as np

from .channel import Channel, SealedError
from .sandbox import Code, start_sandboxed

GRACE_S = 10.0
"""Processor time beyond the limit of wall time, so that the judge ends a process that only computes, and says why."""
STDERR_BYTES = 4096
"""Bytes of the end of stderr that are read."""


class SealedProcess(Channel):
    """A process that runs code by a module's ``serve(channel, order)``. A context manager: it ends the process.

    Arguments:
        order: for the module, with the reference of the code.

    Raises:
        SealedError: the process ended.
        InputError: there is no sandbox on this machine.
    """

    def __init__(self, module: str, code: Code, **order: Any):
        self.code = code
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = ["bench.sealed.child", str(theirs.fileno()), module]
            self.process = start_sandboxed(arguments, code, theirs.fileno(), self.stderr)
        super().__init__(ours)
        self.limit_time(code.seconds, f"still running after {code.seconds:.0f} s, the limit")
        limits: dict[str, Any] = {"seconds": code.seconds + GRACE_S, "gib": code.gib, "sandboxed": not code.unsafe}
        self.send("order", reference=code.reference, **limits, **order)

    def limit_time(self, seconds: float, failure: str) -> None:
        """Limit the process to ``seconds`` from now; ``failure`` is the fault when they are over."""
        self.deadline, self.late = time.monotonic() + seconds, failure

    def answer(self, expected: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The arrays and values of the next message.

        Raises:
            SealedError: see ``receive``; or the message is not of the expected kind, such as a refusal.
        """
        kind, arrays, values = self.receive()
        if kind != expected:
            raise SealedError(" ".join(str(values.get("text", f"answered {kind!r:.40} instead of {expected}")).split())[:500])
        return arrays, values

    def fault(self, text: str) -> SealedError:
        """The fault, with the last line that the process wrote to stderr if it has ended."""
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return SealedError(text)
        end = os.fstat(self.stderr.fileno()).st_size
        self.stderr.seek(max(0, end - STDERR_BYTES))
        last = self.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
        return SealedError(f"{text} (exit code {self.process.returncode}{': ' + last[0][:300] if last else ''})")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self.process.kill()  # in a sandbox, everything that it started ends with it
        self.process.wait()
        self.stderr.close()
