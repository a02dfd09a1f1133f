"""NVIDIA's Multi-Process Service, which lets the kernels of several processes run together."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasks import InputError

STOP_S = 20.0
"""Seconds in which the service answers."""


@contextmanager
def multi_process_service(folder: str, wanted: bool) -> Iterator[dict[str, str]]:
    """NVIDIA's Multi-Process Service, which lets the kernels of several processes run together; its environment."""
    if not wanted:
        yield {}
        return
    environment = {"CUDA_MPS_PIPE_DIRECTORY": f"{folder}/pipe", "CUDA_MPS_LOG_DIRECTORY": f"{folder}/log"}
    for path in environment.values():
        Path(path).mkdir()
    control = "nvidia-cuda-mps-control"
    if shutil.which(control) is None:
        raise InputError(f"there is no {control} on this machine")

    with_paths = os.environ | environment

    def call(text: str) -> str:
        done = subprocess.run([control], input=f"{text}\n", capture_output=True, text=True, env=with_paths, timeout=STOP_S)
        return done.stdout

    none = subprocess.DEVNULL  # no pipes for output: the daemon may keep them open
    try:
        if code := subprocess.call([control, "-d"], stdin=none, stdout=none, stderr=none, env=with_paths, timeout=STOP_S):
            raise InputError(f"{control} -d ended with {code}")
        yield environment
        if not call("get_server_list").strip():  # without the service, programs run as if it had not been asked for
            raise InputError(f"{control} has no server: the runs did not use it")
    finally:
        with suppress(subprocess.TimeoutExpired):
            call("quit")
