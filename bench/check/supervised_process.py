"""A Python module run in another process, with limits on time and memory; it reports JSON messages through a pipe."""

import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

POLL_S = 0.05
LONGEST_MESSAGE = 2**26
"""Maximum size of a message, in bytes."""


def send(pipe: int, kind: str, **fields: Any) -> None:
    """Send a message from the supervised process, through the pipe it was given."""
    data = json.dumps({"kind": kind} | fields).encode() + b"\n"
    while data:
        data = data[os.write(pipe, data) :]


class SupervisedProcess:
    """Runs ``python -m <module> <pipe> <order>``. A context manager: on exit, it kills the process and all that it started.

    Arguments:
        module: a package whose ``__main__`` takes the file descriptor of a pipe and a JSON object.
        order: the JSON object.
        memory_limit_gb: GiB of memory that the process may hold.
        path: folders to search for modules before all others.
        environment: variables to set.
        own_group: start a process group and kill all of it; otherwise kill only the process itself.
    """

    def __init__(
        self,
        module: str,
        order: Mapping[str, Any],
        memory_limit_gb: float = math.inf,
        path: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        own_group: bool = True,
    ):
        self.memory_limit_gb, self.own_group = memory_limit_gb, own_group
        self.deadline, self.late = math.inf, ""
        self.failure = ""
        """Why the messages ended: a limit, a signal, an exit code with the last line of stderr; empty after a normal exit."""
        self.stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `__exit__`)
        self.pipe, child_pipe = os.pipe()
        root = str(Path(__file__).parents[2])  # before the current folder, which may have a bench.py
        search_path = os.pathsep.join([*path, root, *filter(None, sys.path)])
        try:
            self.process = subprocess.Popen(  # -P: not the current folder
                [sys.executable, "-P", "-m", module, str(child_pipe), json.dumps(order)],
                pass_fds=[child_pipe],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.stderr,
                env=os.environ | {"PYTHONPATH": search_path} | (environment or {}),
                start_new_session=own_group,
            )
        finally:
            os.close(child_pipe)

    def limit_time(self, seconds: float, failure: str) -> None:
        """Limit the process to ``seconds`` from now; ``failure`` is reported when they are over."""
        self.deadline, self.late = time.monotonic() + seconds, failure

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield messages of the process until it ends or exceeds a limit; the attribute ``failure`` then says why."""
        rest = b""
        while True:
            if select.select([self.pipe], [], [], POLL_S)[0]:
                data = os.read(self.pipe, 2**16)
                if not data:
                    self.failure = self.exit_failure()
                    return
                *lines, rest = (rest + data).split(b"\n")
                try:
                    yield from map(json.loads, lines)
                except ValueError:
                    self.failure = "something other than the harness wrote to its pipe"
                    return
            if time.monotonic() > self.deadline:
                self.failure = self.late
            elif self.resident_bytes() > self.memory_limit_gb * 2**30:
                self.failure = f"took more than {self.memory_limit_gb:g} GiB of memory, the limit"
            elif len(rest) > LONGEST_MESSAGE:
                self.failure = f"sent a message of more than {LONGEST_MESSAGE:,} bytes"
            if self.failure:
                return

    def resident_bytes(self) -> int:
        """Memory in use; 0 on systems without ``/proc``."""
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except (OSError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def exit_failure(self) -> str:
        """How the process ended, with the last line it printed to stderr; empty after exit code 0."""
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "it closed its pipe but did not exit"
        if code == 0:
            return ""
        self.stderr.seek(max(0, os.fstat(self.stderr.fileno()).st_size - 4096))
        last = self.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"its process died ({cause})" + (f": {last[0]:.300}" if last else "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if self.own_group:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.wait()
        os.close(self.pipe)
        self.stderr.close()
