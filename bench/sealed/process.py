"""A sandboxed process that answers messages, with limits on its time and memory; its messages are read as untrusted data.

It is ``python -m bench.sealed.process FD MODULE``, which limits itself before it loads anything else.

A message is JSON (its kind and a few values), then arrays as safetensors: reading them runs no code and checks all sizes. A
thread watches what all processes of the sandbox use together: limits of the kernel bind each for itself, and root not at all.
"""

import importlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from .sandbox import MOST_THREADS, Code, limit_resources, refuse_calls, start_sandboxed

MOST_BYTES = 2**30
"""Largest arrays of a message: a model of the suite `standard` has 20 MB of weights."""
MOST_JSON = 2**20
"""Largest values of a message: read, JSON may take 40 times its bytes."""
WATCH_EVERY_S = 0.1


class SealedError(Exception):
    """The other side failed or broke the protocol; the text says what happened, on one line."""


class Channel:
    """One end of a connection; each message is a kind, a few JSON values and a list of arrays."""

    def __init__(self, connection: Connection):
        self.connection = connection

    def send(self, kind: str, arrays: Iterable[np.ndarray] = (), **values: Any) -> None:
        """Send a message; raises ``SealedError`` if the other side is gone."""
        contiguous = {str(n): np.asarray(array, order="C") for n, array in enumerate(arrays)}
        try:
            self.connection.send_bytes(json.dumps({"kind": kind} | values).encode())
            self.connection.send_bytes(save(contiguous))
        except OSError:
            raise self.fault("its process ended") from None

    def receive(self) -> tuple[str, list[np.ndarray], dict[str, Any]]:
        """The next message: kind, arrays, values.

        Raises:
            SealedError: the other side closed, or it is not a message.
        """
        try:
            values = json.loads(self.connection.recv_bytes(MOST_JSON))
            kind, arrays = values.pop("kind"), load(self.connection.recv_bytes(MOST_BYTES))
            return kind, [arrays[str(n)] for n in range(len(arrays))], values
        except EOFError:
            raise self.fault("its process ended") from None
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self.fault(f"not a message: {error}") from None

    def fault(self, text: str) -> SealedError:
        return SealedError(text)


class SealedProcess(Channel):
    """A process that runs code by a module's ``serve(channel, order)``. A context manager: it ends the process.

    Raises:
        SealedError: the process ended.
        InputError: there is no sandbox on this machine.
    """

    def __init__(self, module: str, code: Code):
        self.code, self.excess, self.ended = code, "", threading.Event()
        ours, theirs = Pipe()
        super().__init__(ours)
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        with theirs:
            arguments = [__name__, str(theirs.fileno()), module]
            self.process = start_sandboxed(arguments, code, theirs.fileno(), self.stderr)
        threading.Thread(target=self.watch, daemon=True).start()
        self.send("order", reference=code.reference, gib=code.gib, sandboxed=not code.unsafe)

    def watch(self) -> None:
        """End the process, and with it all of its sandbox, once it exceeds a limit."""
        code, start = self.code, time.monotonic()
        while not (self.excess or self.ended.wait(WATCH_EVERY_S)):
            threads, size = usage(self.process.pid)
            if time.monotonic() > start + code.seconds:
                self.excess = f"still running after {code.seconds:.0f} s, the limit"
            elif threads > MOST_THREADS and not code.unsafe:
                self.excess = f"{threads} threads and processes, more than {MOST_THREADS}"
            elif size > code.gib * 2**30:
                self.excess = f"uses {size / 2**30:.1f} GiB of memory, more than {code.gib:g}"
        if self.excess:
            self.process.kill()

    def answer(self, expected: str) -> tuple[list[np.ndarray], dict[str, Any]]:
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
        if self.excess:
            return SealedError(self.excess)
        self.stderr.seek(0)
        last = self.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
        return SealedError(f"{text} (exit code {self.process.returncode}{': ' + last[0][:300] if last else ''})")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.connection.close()
        self.process.kill()  # in a sandbox, everything that it started ends with it
        self.process.wait()
        self.stderr.close()


def usage(pid: int) -> tuple[int, int]:
    """Threads of a process and all that it has started, and the bytes that they have written in memory, shared or not."""
    threads, kib, pending = 0, 0, [str(pid)]
    while pending and threads <= MOST_THREADS:
        place = Path("/proc", pending.pop())
        with suppress(OSError):  # it has ended
            text = (place / "status").read_text(errors="replace")  # a process chooses its name
            fields = dict(line.split(":", 1) for line in text.split("\n") if line)
            threads += int(fields["Threads"])
            kib += sum(int(fields.get(name, "0 kB").split()[0]) for name in ("RssAnon", "RssShmem", "VmPTE"))
            pending += [child for task in (place / "task").iterdir() for child in (task / "children").read_text().split()]
    return threads, kib * 2**10


if __name__ == "__main__":
    channel = Channel(Connection(int(sys.argv[1])))
    order = channel.receive()[2]
    limit_resources(order["gib"], order["sandboxed"])
    if order["sandboxed"]:
        refuse_calls()
        tempfile.tempdir = "/tmp"  # libraries ask for one when they are imported; a sandbox has none that is writable
    importlib.import_module(sys.argv[2]).serve(channel, order)
