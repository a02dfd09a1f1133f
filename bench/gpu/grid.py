"""A whole grid on a GPU by ``lprime run``, and the archive of its results."""

import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from pathlib import Path

import torch

from bench.runs.run import FAILURE, RESULT
from tasks import InputError

from .measurements import Grid

PACK_EVERY_S = 60.0
"""Seconds between two packings of the grid's results, which a killed command leaves."""
STOP_S = 20.0
"""Seconds in which a terminated ``lprime run`` saves its runs."""
CHOICES = ("encoding", "task", "seed")
"""Options of ``lprime run`` that choose a part of a suite."""
RESULTS = "results.tar.gz"
"""The grid's results and failures, to be carried to another machine and published from."""


def lprime_run(suite: str, workers: int, device: torch.device, out: Path) -> list[str]:
    end_with_parent = ["setpriv", "--pdeathsig=TERM"] if shutil.which("setpriv") else []  # even if that is killed
    command = [*end_with_parent, sys.executable, "-m", "lprime", "run", suite, f"--workers={workers}"]
    return [*command, f"--device={device.type}", f"--out={out}"]


def run_grid(
    suite: str, choices: Sequence[Sequence[object]], workers: int, device: torch.device, end: float, folder: Path
) -> Grid:
    """Run a grid until a time, after the results of earlier calls are unpacked, and pack its results.

    Arguments:
        suite: its name or YAML file.
        choices: encodings, tasks and seeds.
        end: value of ``time.monotonic()`` at which it is stopped.
    """
    out, archive, start = folder / "runs", folder / RESULTS, time.monotonic()
    unpack_results(archive, out)
    options = [f"--{name}={value}" for name, values in zip(CHOICES, choices, strict=True) for value in values]
    process = subprocess.Popen([*lprime_run(suite, workers, device, out), *options, "--retry-failed"])
    try:
        while process.poll() is None and (left := end - STOP_S - time.monotonic()) > 0:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=min(PACK_EVERY_S, left))
            pack_results(out, archive)
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    if process.returncode == 2:
        raise InputError("lprime run refused the grid, see above")
    done, failed = pack_results(out, archive)
    return Grid(key=Path(suite).stem, done=done, failed=failed, asked=prod(map(len, choices)), seconds=time.monotonic() - start)


def unpack_results(archive: Path, out: Path) -> None:
    """Unpack what ``pack_results`` packed, if it exists."""
    if archive.exists():
        with tarfile.open(archive) as packed:
            packed.extractall(out, filter="data")


def pack_results(out: Path, archive: Path) -> tuple[int, int]:
    """Pack the results and failures of a folder of runs; returns how many there are of each. Runs may go on meanwhile."""
    results, failures = sorted(out.rglob(RESULT)), sorted(out.rglob(FAILURE))
    partial = archive.with_suffix(".part")
    with tarfile.open(partial, "w:gz") as packed:
        for path in results + failures:
            with suppress(FileNotFoundError):  # a failed run was started again, which deletes its report
                packed.add(path, path.relative_to(out))
    partial.replace(archive)
    return len(results), len(failures)
