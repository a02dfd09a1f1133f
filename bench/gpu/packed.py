"""Several trainings at a time on one GPU: their steps a second, and the use of the GPU, with and without MPS."""

import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from statistics import fmean

import torch

from bench.runs.devices import visible_gpus
from bench.runs.pool import environment, worker_environment
from bench.runs.worker import end_with_parent
from bench.speed.trainee import Trainee
from bench.suites.suite import load_suite
from bench.training.train import TrainingState
from tasks import InputError

from .measurements import Packed, error_text, label
from .mps import multi_process_service

ENCODINGS = ("nope", "rope", "alibi", "t5")
"""Encodings of the trainings, in turns."""
TASK = "copying"
FIRST_STEPS = 10
"""Steps before the measurement, in which the CUDA graphs of the most frequent shapes are recorded."""
NVIDIA_SMI_S = 2.0
"""Seconds until ``nvidia-smi`` has reported once."""
START_S = 60.0
"""Longest time that the processes take to start."""


def measure_packed(
    suite: str, counts: Sequence[int], mps: bool, device: torch.device, seconds: float, end: float
) -> list[Packed]:
    """Start as many trainings of copying as the largest count, and let the first of them run, for each count.

    Arguments:
        seconds: length of each measurement.
        end: value of ``time.monotonic()`` from which on nothing is measured.

    Raises:
        InputError: a training, or NVIDIA's Multi-Process Service, fails.
        TimeoutError: they take too long to start.
    """
    name, steps_per_run = label(suite), load_suite(suite).recipe_for(TASK).steps
    found: list[Packed] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, sampled_use(device) as samples:
        if device.type == "cuda":
            time.sleep(NVIDIA_SMI_S)
        used_before = samples[0][1] if samples else None  # other processes have some memory too
        with multi_process_service(scratch, mps) as variables, trainings(suite, max(counts), variables, device, end) as group:
            for count in counts:
                if time.monotonic() + seconds > end and found:
                    break
                group.run(count)
                time.sleep(seconds / 4)  # until the others rest, and `nvidia-smi` reports the present use
                first, made = len(samples), group.steps()
                start = time.perf_counter()
                time.sleep(seconds)
                rate = (group.steps() - made) / (time.perf_counter() - start)
                if not rate:
                    raise InputError(f"{count} trainings made no step in {seconds:g} s")
                use = samples[first:]
                found.append(
                    Packed(
                        key=f"{name} {count}{' mps' * mps}", suite=name, at_once=count, mps=mps, steps_per_s=rate,
                        runs_per_hour=3600 * rate / steps_per_run,
                        busy=fmean(busy for busy, _ in use) / 100 if use else None,
                        memory_mb=use[-1][1] - used_before if use and used_before is not None else None,
                    )
                )  # fmt: skip
    return found


class Trainings:
    """Processes that train, of which only the first few run."""

    def __init__(self, count: int, spawn) -> None:
        self.made, self.running = spawn.RawArray("q", count), spawn.RawValue("i", 0)

    def run(self, count: int) -> None:
        self.running.value = count

    def steps(self) -> int:
        """Steps of all together."""
        return sum(self.made)


@contextmanager
def trainings(suite: str, count: int, variables: dict[str, str], device: torch.device, end: float) -> Iterator[Trainings]:
    """Processes that have made their first steps and wait."""
    spawn = get_context("spawn")
    group, pipes, processes = Trainings(count, spawn), [], []
    try:
        with environment(worker_environment() | variables):
            for n in range(count):
                receiver, sender = spawn.Pipe(duplex=False)
                arguments = (sender, suite, ENCODINGS[n % len(ENCODINGS)], n, device.type, group.made, group.running)
                process = spawn.Process(target=train_and_rest, args=arguments, daemon=True)
                process.start()
                processes.append(process)
                sender.close()
                pipes.append(receiver)
        deadline = min(end, time.monotonic() + START_S)
        for pipe in pipes:
            if not pipe.poll(max(0.0, deadline - time.monotonic())):
                raise TimeoutError(f"{count} trainings do not start in time")
            try:
                error = pipe.recv()
            except EOFError:
                error = "its process died"
            if error:
                raise InputError(f"a training failed: {error}")
        yield group
        if ended := wait([process.sentinel for process in processes], timeout=0):
            raise InputError(f"{len(ended)} of {count} trainings ended early{last_error(pipes)}")
    finally:
        for process in processes:
            process.kill()
            process.join()


def last_error(pipes: Sequence[Connection]) -> str:
    """An error that a training has sent, after a colon."""
    for pipe in pipes:
        with suppress(EOFError, ConnectionError):
            if pipe.poll() and (error := pipe.recv()):
                return f": {error}"
    return ""


def train_and_rest(sender: Connection, suite: str, encoding: str, n: int, device: str, made: Sequence[int], running) -> None:
    """The real training loop, without end; rests while ``n`` is not under the number of those that run."""
    end_with_parent()
    torch.set_num_threads(1)

    def after_step(state: TrainingState) -> None:
        made[n] += 1  # type: ignore[index]
        if state.step == FIRST_STEPS:
            sender.send("")
        while state.step >= FIRST_STEPS and n >= running.value:
            time.sleep(0.01)

    try:
        trainee = Trainee(load_suite(suite), TASK, encoding, torch.device(device))
        trainee.loop(10**9, after_step)
    except Exception as error:  # reported by the parent
        sender.send(error_text(error))


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
