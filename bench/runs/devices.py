"""This machine: the cores and GPUs that runs can use, and what results say of it and of the running code."""

import math
import os
import platform
import re
import subprocess
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from tasks import InputError, unknown

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
CODE = ("bench", "tasks", "pyproject.toml", "constraints.txt")
"""Paths that can change a run's numbers; excludes results and boards, which change while a grid is running."""


def available_cores() -> int:
    """Cores that this process may use, as affinity and the quota of its container allow; all of the machine's on macOS."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, cpu_quota())))


def cpu_quota() -> float:
    """CPUs that the cgroups of this process, version 1 or 2, may use at a time; infinite without a quota."""
    quotas = [math.inf]
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():  # 0::/path, or 1:cpu,cpuacct:/path
            _, kinds, path = line.split(":", 2)
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if "cpu" in kinds.split(",") else ("cpu.max",)
            own = Path("/sys/fs/cgroup") / ("cpu" if kinds else "") / path.lstrip("/")
            for folder in (own, *own.parents):
                with suppress(OSError, ValueError):  # no such file, or "max"
                    quota, period = " ".join((folder / file).read_text() for file in files).split()
                    quotas += [int(quota) / int(period)] if int(quota) > 0 else []  # -1: none
    return min(quotas)


def visible_gpus(by_uuid: bool = False) -> list[str]:
    """Names of the CUDA devices that torch sees, for ``CUDA_VISIBLE_DEVICES``.

    Arguments:
        by_uuid: return UUIDs; NVIDIA's Multi-Process Service renumbers devices for its clients.
    """
    import torch

    count = torch.cuda.device_count()
    given = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    names = given[:count] if len(given) >= count else [str(index) for index in range(count)]
    if by_uuid and names:
        command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader", "-i", ",".join(names)]
        names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return names


def resolve_device(device: str) -> "torch.device":
    """The torch device; ``auto`` is the GPU if there is one.

    Raises:
        InputError: an unknown name, or ``cuda`` without a GPU.
    """
    if device not in get_args(Device):
        raise unknown("device", device, get_args(Device))
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda was asked for, but torch sees no GPU here; expected auto or cpu")
    return torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")


def package_versions(*more: str) -> dict[str, str]:
    """Versions of Python, of the packages that compute the numbers, and of more packages."""
    import torch

    def version(package: str) -> str:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:  # as lprime in a checkout that is on the path but not installed
            return "not installed"

    packages = {name: version(name) for name in ("lprime", "numpy", *more)}
    return {"python": platform.python_version(), "torch": torch.__version__} | packages


def device_name(device: "torch.device") -> str:
    """Model name of the GPU or CPU."""
    if device.type == "cuda":
        import torch

        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")  # of Linux
    model = re.search(r"^model name\s*:\s*(.*\S)", info.read_text() if info.exists() else "", re.MULTILINE)
    return f"cpu ({model[1] if model else platform.machine()})"


@cache
def current_commit(root: Path = Path(__file__).resolve().parents[2]) -> str | None:
    """The git commit of the running code, with suffix ``-dirty`` if ``CODE`` was modified; None outside of a checkout.

    The environment variable ``LPRIME_COMMIT`` replaces it: for a copy of the code without its history, as in a container.

    Cached at the first run of the process: modules already imported do not follow later commits.
    """
    if given := os.environ.get("LPRIME_COMMIT"):
        return given
    # In a git hook GIT_DIR and the like point to another repository. Optional locks could make a concurrent commit fail.
    env = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {"GIT_OPTIONAL_LOCKS": "0"}

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=root, env=env, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "bench/__init__.py")  # an installed package may merely be inside a repository
        return git("rev-parse", "HEAD") + ("-dirty" if git("status", "--porcelain", "--", *CODE) else "")
    except (OSError, subprocess.SubprocessError):  # without git, too
        return None
