"""This machine: the cores and GPUs that runs can use, and what results say of it."""

import math
import os
import platform
import subprocess
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from tasks import InputError, unknown

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]


def available_cores() -> int:
    """Cores that this process may use, as affinity and the quota of its container allow; all of the machine's on macOS."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, cpu_quota())))


def cpu_quota(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float:
    """CPUs that the cgroups of this process may use at a time, those above it included; infinite without a quota."""
    try:
        groups = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return math.inf
    quotas = [math.inf]
    for _, controllers, path in groups:
        top = root / "cpu" if "cpu" in controllers.split(",") else root  # version 1, or 2
        folder = top / path.lstrip("/")
        for place in (folder, *folder.parents):
            with suppress(OSError, ValueError):
                if top is root:
                    quota, period = (place / "cpu.max").read_text().split()
                else:
                    quota, period = ((place / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
                if quota != "max" and int(quota) > 0:
                    quotas.append(int(quota) / int(period))
            if place == root:
                break
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
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"cpu ({model})"
