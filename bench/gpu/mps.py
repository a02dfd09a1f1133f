"""NVIDIA's Multi-Process Service, which lets the kernels of several processes run together."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tasks import InputError

STOP_S = 20.0
"""Seconds in which the service answers."""


@contextmanager
def multi_process_service(folder: str, wanted: bool, checked: bool = True) -> Iterator[dict[str, str]]:
    """Start the service, if it is wanted, and stop it at the end; yields the variables for programs that shall use it.

    Arguments:
        folder: for its pipes and logs.
        checked: a program must have used it.

    Raises:
        InputError: it is not installed, it does not start, or nothing has used it.
    """
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
        if checked and not call("get_server_list").strip():  # without the service, programs run as if it had not been asked for
            raise InputError(f"{control} has no server: the runs did not use it")
    finally:
        try:
            call("quit")
        except subprocess.TimeoutExpired:  # it waits for a client that was killed
            with suppress(OSError, ValueError):
                os.kill(int(Path(folder, "pipe", "nvidia-cuda-mps-control.pid").read_text()), signal.SIGKILL)
