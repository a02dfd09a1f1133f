"""A whole grid on a GPU by ``lprime run``, and the archive of its results."""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path

import torch

from bench.runs.run import FAILURE, RESULT
from tasks import InputError

from .measurements import Grid

LATE_S = 30.0
"""Seconds that what is still running gets when the command's time is over."""
PACK_EVERY_S = 60.0
"""Seconds between two packings of the grid's results, which a killed command leaves."""
STOP_S = 20.0
"""Seconds in which a terminated ``lprime run`` saves its runs."""
CHOICES = ("encoding", "task", "seed")
"""Options of ``lprime run`` that choose a part of a suite."""
RESULTS = "results.tar.gz"
"""The grid's results and failures, to be carried to another machine and published from."""


class RunsFailed(InputError):
    """``lprime run`` ended, and some runs failed."""


def run_to_end(command: list[str], environment: Mapping[str, str], seconds: float) -> None:
    """Run ``lprime run``, and kill it and its workers when the time is over.

    Raises:
        RunsFailed: a run failed.
        InputError: it refuses the runs.
        TimeoutError: it takes longer.
    """
    if seconds <= 0:
        raise TimeoutError("no time left")
    pipe, errors = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, stdout=pipe, stderr=errors, text=True, env=environment, start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"lprime run takes longer than {seconds:.0f} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        error = RunsFailed if process.returncode == 1 else InputError
        raise error(f"lprime run ended with {process.returncode}: {' '.join(output.split()[-40:])}")


def lprime_run(suite: str, workers: int, device: torch.device, out: Path) -> list[str]:
    end_with_parent = ["setpriv", "--pdeathsig=TERM"] if shutil.which("setpriv") else []  # even if that is killed
    command = [*end_with_parent, sys.executable, "-m", "lprime", "run", suite, f"--workers={workers}"]
    return [*command, f"--device={device.type}", f"--out={out}"]


def run_grid(
    suite: str, stages: Sequence[Sequence[Sequence[object]]], workers: int, device: torch.device, end: float, folder: Path
) -> Grid:
    """Run a grid until a time, after the results of earlier calls are unpacked, and pack its results.

    Arguments:
        suite: its name or YAML file.
        stages: encodings, tasks and seeds that run first, then those that run next; the last are the whole grid.
        end: value of ``time.monotonic()`` at which it is stopped.
    """
    out, archive, start = folder / "runs", folder / RESULTS, time.monotonic()
    unpack_results(archive, out)
    for stage in stages:
        options = [f"--{name}={value}" for name, values in zip(CHOICES, stage, strict=True) for value in values]
        process = subprocess.Popen([*lprime_run(suite, workers, device, out), *options, "--retry-failed"])
        try:
            while process.poll() is None and (left := end - STOP_S - time.monotonic()) > 0:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=min(PACK_EVERY_S, left))
                pack_results(out, archive)
        finally:
            if stopped := process.poll() is None:
                process.terminate()
                try:
                    process.wait(timeout=STOP_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if process.returncode == 2:
            raise InputError("lprime run refused the grid, see above")
        if stopped:
            break
    done, failed = pack_results(out, archive)
    return Grid(
        key=Path(suite).stem, done=done, failed=failed, asked=prod(map(len, stages[-1])), seconds=time.monotonic() - start
    )


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
