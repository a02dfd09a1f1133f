"""A sandboxed process that answers messages, with limits on its time and memory; its messages are read as untrusted data.

A message is JSON (its kind and a few values), then arrays as safetensors: reading them runs no code and checks all sizes.
"""

import json
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from .sandbox import Code, start_sandboxed

MOST_BYTES = 2**30
"""Largest message: a model of the suite `standard` has 20 MB of weights."""
GRACE_S = 10.0
"""Processor time beyond the limit of wall time, so that the judge ends a process that only computes, and says why."""


class SealedError(Exception):
    """The other side failed or broke the protocol; the text says what happened, on one line."""


class Channel:
    """One end of a connection; each message is a kind, a few JSON values and arrays by name."""

    def __init__(self, connection: Connection):
        self.connection = connection

    def send(self, kind: str, arrays: Mapping[str, np.ndarray] | None = None, **values: Any) -> None:
        """Send a message; raises ``SealedError`` if the other side is gone."""
        contiguous = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
        try:
            self.connection.send_bytes(json.dumps({"kind": kind} | values).encode())
            self.connection.send_bytes(save(contiguous))
        except OSError:
            raise self.fault("its process ended") from None

    def receive(self) -> tuple[str, dict[str, np.ndarray], dict[str, Any]]:
        """The next message: kind, arrays, values.

        Raises:
            SealedError: the other side closed, or it is not a message.
        """
        try:
            values = json.loads(self.connection.recv_bytes(MOST_BYTES))
            return values.pop("kind"), load(self.connection.recv_bytes(MOST_BYTES)), values
        except EOFError:
            raise self.fault("its process ended") from None
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self.fault(f"not a message: {error}") from None

    def fault(self, text: str) -> SealedError:
        return SealedError(text)


class SealedProcess(Channel):
    """A process that runs code by a module's ``serve(channel, order)``. A context manager: it ends the process.

    Arguments:
        order: for the module, with the reference of the code.

    Raises:
        SealedError: the process ended.
        InputError: there is no sandbox on this machine.
    """

    def __init__(self, module: str, code: Code, **order: Any):
        self.code, self.late = code, ""
        ours, theirs = Pipe()
        super().__init__(ours)
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        with theirs:
            arguments = ["bench.sealed.child", str(theirs.fileno()), module]
            self.process = start_sandboxed(arguments, code, theirs.fileno(), self.stderr)
        self.timer = threading.Timer(code.seconds, self.end)
        self.timer.daemon = True
        self.timer.start()
        limits: dict[str, Any] = {"seconds": code.seconds + GRACE_S, "gib": code.gib, "sandboxed": not code.unsafe}
        self.send("order", reference=code.reference, **limits, **order)

    def end(self) -> None:
        """End the process, which has used its time."""
        self.late = f"still running after {self.code.seconds:.0f} s, the limit"
        self.process.kill()

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
        if self.late:
            return SealedError(self.late)
        self.stderr.seek(0)
        last = self.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
        return SealedError(f"{text} (exit code {self.process.returncode}{': ' + last[0][:300] if last else ''})")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.timer.cancel()
        self.connection.close()
        self.process.kill()  # in a sandbox, everything that it started ends with it
        self.process.wait()
        self.stderr.close()
