"""A sandboxed process that answers messages, with limits on its time and memory."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from .channel import Channel, ChannelError
from .sandbox import Code, start_sandboxed

STDERR_BYTES = 4096
"""Bytes of the end of stderr that are read."""


class SealedError(Exception):
    """The sealed process broke the protocol, or failed; one line."""


class SealedProcess:
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
        self.channel = Channel(ours)
        self.limit_time(code.seconds)
        limits: dict[str, Any] = {"seconds": code.seconds, "gib": code.gib, "sandboxed": not code.unsafe}
        self.send("order", reference=code.reference, **limits, **order)

    def limit_time(self, seconds: float, failure: str = "") -> None:
        """Limit the process to ``seconds`` from now; ``failure`` is the fault when they are over."""
        self.deadline = time.monotonic() + seconds
        self.late = failure or f"still running after {seconds:.0f} s, the limit"

    def send(self, kind: str, arrays: Mapping[str, np.ndarray] | None = None, **values: Any) -> None:
        """Send a message; raises ``SealedError`` if the process has ended or does not read it in time."""
        self.channel.connection.settimeout(max(0.01, self.deadline - time.monotonic()))
        try:
            self.channel.send(kind, arrays, **values)
        except TimeoutError:
            raise SealedError(self.late) from None
        except OSError:
            raise SealedError(self.reason("its process ended")) from None

    def receive_any(self) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        """The next message: kind, arrays, values; raises ``SealedError`` if none arrives in time, or it is not a message."""
        try:
            return self.channel.receive(self.deadline - time.monotonic())
        except ChannelError as error:
            late = time.monotonic() >= self.deadline
            raise SealedError(self.late if late else self.reason(str(error))) from None

    def receive(self, expected: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The arrays and values of the next message.

        Raises:
            SealedError: see ``receive_any``; or the message is not of the expected kind, such as a refusal.
        """
        kind, arrays, values = self.receive_any()
        if kind != expected:
            raise SealedError(" ".join(str(values.get("text", f"answered {kind!r:.40} instead of {expected}")).split())[:500])
        return arrays, values

    def reason(self, fault: str) -> str:
        """The fault, with the last line that the process wrote to stderr if it has ended."""
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            return fault
        end = os.fstat(self.stderr.fileno()).st_size
        self.stderr.seek(max(0, end - STDERR_BYTES))
        last = self.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
        return f"{fault} (exit code {self.process.returncode}{': ' + last[0][:300] if last else ''})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.connection.close()
        self.process.kill()  # in a sandbox, everything that it started ends with it
        self.process.wait()
        self.stderr.close()
