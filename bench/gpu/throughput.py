"""Speed on a GPU: training steps next to the libraries', several runs at a time, and a whole grid."""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from statistics import fmean

import torch
import yaml

from bench.result import read_result
from bench.runs.devices import visible_gpus
from bench.runs.run import FAILURE, RESULT, plan_runs
from bench.speed.plan import Budget
from bench.speed.steps import time_steps
from bench.suites.suite import Suite, load_suite
from tasks import InputError

from .measurements import Grid, Packed, Steps, error_text

ENCODINGS = ["nope", "rope", "alibi", "t5"]
"""Encodings of the runs that are packed."""
PACKED_S, LATE_S = 300.0, 30.0
"""Time limits: of one measurement of packed runs, and of what is still running when the command's time is over."""
PACK_EVERY_S = 60.0
"""Seconds between two packings of the grid's results, which a killed command leaves."""
STOP_S = 20.0
"""Seconds in which a terminated ``lprime run`` saves its runs."""
CHOICES = ("encoding", "task", "seed")
"""Options of ``lprime run`` that choose a part of a suite."""
RESULTS = "results.tar.gz"
"""The grid's results and failures, to be carried to another machine and published from."""


def measure_steps(suite: str, task: str, device: torch.device, budget: Budget, compiled: bool, end: float) -> Steps:
    """A training step of ours and of the libraries' models, with the recipe's batch.

    Arguments:
        compiled: the libraries' models by ``torch.compile``, on batches of one shape.
        end: value of ``time.monotonic()`` from which on no further library's model is prepared.
    """
    found, failed = load_suite(suite), dict[str, Exception]()
    steps = time_steps(found, task, budget, found.recipe_for(task).batch, device, compiled, failed, end)
    return Steps(
        key=f"{suite} {task}{' compiled' * compiled}",
        steps=steps,
        left_out={who: error_text(error) for who, error in failed.items()},
    )


def measure_packed(suite_name: str, count: int, mps: bool, device: torch.device, steps: int, end: float) -> Packed:
    """Time ``lprime run`` with ``count`` runs of copying at a time and fewer steps; extrapolate to whole runs.

    Arguments:
        end: value of ``time.monotonic()`` at which the measurement is given up.

    Raises:
        InputError: the command, or NVIDIA's Multi-Process Service, fails.
        TimeoutError: it takes too long.
    """
    suite = load_suite(suite_name)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        file, out = Path(scratch, "suite.yaml"), Path(scratch, "runs")
        short = shortened(suite, count, steps)
        file.write_text(yaml.safe_dump(short.model_dump(mode="json")), encoding="utf-8")
        with multi_process_service(scratch, mps) as environment, sampled_use(device) as samples:
            command = [*lprime_run(str(file), count, device, out), "--quiet"]
            run_to_end(command, os.environ | environment, min(PACKED_S, end + LATE_S - time.monotonic()))
        timings = [read_result(run.folder(out) / RESULT).timings for run in plan_runs(short)]
    # Everything but steps (evaluation, recording of graphs) happens once per run; only the steps are extrapolated.
    full = suite.recipe_for("copying").steps
    seconds = fmean(t.total_s + t.step_ms * (full - steps) / 1e3 for t in timings)
    training = samples[len(samples) // 4 : len(samples) - len(samples) // 4]  # without the processes' start and end
    return Packed(
        key=f"{suite_name} {count}{' mps' * mps}",
        suite=suite_name,
        at_once=count,
        mps=mps,
        step_ms=fmean(t.step_ms for t in timings),
        evaluate_s=fmean(t.evaluate_s for t in timings),
        runs_per_hour=3600 * count / seconds,
        busy=fmean(busy for busy, _ in training) / 100 if training else None,
        memory_mb=max(memory for _, memory in samples) - samples[0][1] if samples else None,  # this process has some too
    )


def shortened(suite: Suite, count: int, steps: int) -> Suite:
    """Copying with few steps: two rounds of ``count`` runs, at least one of each encoding."""
    recipe = suite.recipe_for("copying")
    recipe = recipe.model_copy(update={"steps": steps, "warmup_steps": min(recipe.warmup_steps, steps)})
    specs = [spec.model_copy(update={"recipe": {}}) for spec in suite.tasks if spec.task == "copying"]
    seeds = list(range(max(1, 2 * count // len(ENCODINGS))))
    return suite.model_copy(update={"recipe": recipe, "tasks": specs, "encodings": ENCODINGS, "seeds": seeds})


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


@contextmanager
def sampled_use(device: torch.device) -> Iterator[list[tuple[float, float]]]:
    """Pairs of GPU use in per cent and memory in MiB, sampled twice a second by ``nvidia-smi``; none without a GPU."""
    samples: list[tuple[float, float]] = []
    program = shutil.which("nvidia-smi")
    if device.type != "cuda" or program is None:
        yield samples
        return
    unbuffered = ["stdbuf", "-oL"] if shutil.which("stdbuf") else []  # each line at once
    query = ["--query-gpu=utilization.gpu,memory.used", "--format=csv,noheader,nounits", "-lms", "500"]
    process = subprocess.Popen(
        [*unbuffered, program, *query, "-i", visible_gpus()[0]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )

    def read() -> None:
        for line in process.stdout or ():
            busy, _, memory = line.partition(",")
            try:
                samples.append((float(busy), float(memory)))
            except ValueError:  # "[N/A]"
                continue

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield samples
    finally:
        process.terminate()
        process.wait()
        reader.join(timeout=5)


def run_grid(
    suite: Path, stages: Sequence[Sequence[Sequence[object]]], workers: int, device: torch.device, end: float, folder: Path
) -> Grid:
    """Run a grid until a time, after the results of earlier calls are unpacked, and pack its results.

    Arguments:
        suite: its YAML file.
        stages: encodings, tasks and seeds that run first, then those that run next; the last are the whole grid.
        end: value of ``time.monotonic()`` at which it is stopped.
    """
    out, archive, start = folder / "runs", folder / RESULTS, time.monotonic()
    unpack_results(archive, out)
    for stage in stages:
        options = [f"--{name}={value}" for name, values in zip(CHOICES, stage, strict=True) for value in values]
        process = subprocess.Popen([*lprime_run(str(suite), workers, device, out), *options, "--retry-failed"])
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
    return Grid(key=suite.stem, done=done, failed=failed, asked=prod(map(len, stages[-1])), seconds=time.monotonic() - start)


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
