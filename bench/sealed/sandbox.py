"""A process without network, environment, or files but those it needs to read; nothing that it starts outlives it.

Uses bubblewrap (Debian and Fedora package ``bubblewrap``, 0.8 or newer), which needs no root: new namespaces for mounts,
network, processes, users, host name and inter-process communication, a read-only view of Python and of this repository's code,
and a ``/tmp`` of its own that is lost. The process has no capabilities and can make no user namespace, also if root starts it:
root could otherwise mount a read-only folder again as writable. Limits of memory, processor time, processes and file sizes are
set in the process before it loads the code, and hard.
"""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from tasks import InputError

GIB = 2**30
ISOLATED = ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--die-with-parent", "--new-session")
"""Options of every sandbox."""
SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
"""What an interpreter reads from the system."""
HOME = Path(__file__).resolve().parents[2]
"""The folder of the packages, which need not be in ``sys.path``: an editable installation finds them by other means."""
LARGEST_FILE = 2**20
"""Bytes. Files are in the sandbox's own ``/tmp``; libraries test whether they can write there."""
MOST_PROCESSES = 64
"""Threads included. Counted for the user, but in the sandbox's own user namespace."""


@dataclass(frozen=True)
class Code:
    """Code that nobody vouches for."""

    reference: str
    """As for ``lprime run --encoding``."""
    readable: Sequence[Path] = ()
    """Its files and folders. The sandbox shows them at their own paths, in addition to Python, its packages and this code."""
    path: Sequence[str] = ()
    """Folders to search for modules before all others."""
    unsafe: bool = False
    """Run without a sandbox, with the caller's rights."""
    seconds: float = 3600.0
    """Limit of the wall time of its process; its processor time has a limit a little above."""
    gib: float = 8.0
    """Limit of its memory."""


def start_sandboxed(arguments: Sequence[str], code: Code, descriptor: int, stderr: IO[bytes]) -> subprocess.Popen:
    """Start ``python -m arguments…`` in a sandbox with some code and an open socket.

    Raises:
        InputError: bubblewrap is not installed, or may not make namespaces here.
    """
    command = [sys.executable, "-P", "-m", *arguments]
    search = os.pathsep.join(dict.fromkeys([*code.path, *filter(None, sys.path), str(HOME)]))
    environment = {"PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    if not code.unsafe:
        command = [*bubblewrap(code.readable, environment), *command]
    return subprocess.Popen(
        command,
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env=os.environ | environment if code.unsafe else {"PATH": os.defpath},
        start_new_session=True,
    )


@cache
def sandbox_fault() -> str:
    """Why there is no sandbox on this machine; empty if there is one."""
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed (apt-get install bubblewrap)"
    probe = [program, *ISOLATED, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    tried = subprocess.run(probe, capture_output=True, text=True)
    said = tried.stderr.strip()[:200]
    return "" if tried.returncode == 0 else f"bubblewrap (0.8 or newer) cannot make namespaces here: {said}"


def bubblewrap(readable: Sequence[Path], environment: dict[str, str]) -> list[str]:
    """The words before a command that run it in a sandbox, where it sees some files and folders.

    Raises:
        InputError: there is no sandbox on this machine.
    """
    if fault := sandbox_fault():
        raise InputError(f"submitted code runs only in a sandbox, but {fault}; --unsafe runs it with your rights")
    here = os.getcwd()
    # Of sys.path only folders with installed packages: it also has that of the script that calls this.
    folders = [Path(entry) for entry in filter(None, sys.path)]
    packages = [folder for folder in folders if any(folder.glob("*.dist-info"))]
    metadata = [path for folder in folders for path in folder.glob("*.egg-info")]  # of plugins that run from their checkout
    shown = [*map(Path, (*SYSTEM, sys.prefix, sys.base_prefix)), *packages, *metadata]
    shown += [HOME / name for name in ("bench", "tasks", "lprime")]
    binds = [word for path in dict.fromkeys([*shown, *readable]) for word in ("--ro-bind-try", str(path), str(path))]
    sets = [word for name, value in environment.items() for word in ("--setenv", name, value)]
    return [
        shutil.which("bwrap") or "", *ISOLATED, "--clearenv", *sets,
        "--tmpfs", "/tmp", *binds, "--proc", "/proc", "--dev", "/dev", "--dir", here, "--chdir", here, "--",
    ]  # fmt: skip


def limit_resources(seconds: float, gib: float, sandboxed: bool = True) -> None:
    """Set hard limits on the current process and all that it starts.

    Arguments:
        seconds: processor time of each process.
        gib: memory of each process that it can write, in GiB.
        sandboxed: limit the number of processes too.
    """
    limits = [
        (resource.RLIMIT_CPU, int(seconds)),
        (resource.RLIMIT_DATA, int(gib * GIB)),
        (resource.RLIMIT_FSIZE, LARGEST_FILE),
        (resource.RLIMIT_CORE, 0),
    ]
    if sandboxed:  # elsewhere, all processes of the user count
        limits.append((resource.RLIMIT_NPROC, MOST_PROCESSES))
    for kind, limit in limits:
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))
