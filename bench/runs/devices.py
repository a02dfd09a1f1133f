"""The cores and GPUs of this machine that runs can use."""

import os
import subprocess


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
