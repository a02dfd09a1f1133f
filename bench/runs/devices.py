"""This machine: the cores and GPUs that runs can use, and what results say of it."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from tasks import InputError, unknown

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]


def available_cores() -> int:
    """Cores that this process may use; all of the machine's where the system does not say (macOS)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
