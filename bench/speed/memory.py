"""Peak memory, each case in its own process: ``python -m bench.speed.memory CASE …`` prints the peaks as JSON."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .plan import Plan
from .record import Memory
from .timing import log

if TYPE_CHECKING:
    from bench.training.train import TrainingState

SUITE = "small"
ENCODINGS = ("nope", "rope", "alibi", "t5")
LONG_FACTORS = (1, 4)
"""Training lengths of long trainings, as multiples of the suite's."""
Peak = tuple[str, str, float]
"""Description, details, and the peak memory of the process so far in MiB, which never decreases."""


def measure_memory(plan: Plan) -> list[Memory]:
    """Measure a worker that trains, two long trainings, and a worker that evaluates few and then many examples."""
    log("memory")
    cases: list[tuple[str, Sequence[int], Sequence[str]]] = [
        ("training", (plan.memory_steps,), plan.tasks),
        *(("long training", plan.memory_long, [str(factor)]) for factor in LONG_FACTORS),
        ("evaluation", plan.memory_examples, plan.tasks),
    ]
    return [
        Memory(what=what, detail=detail, mb=mb)  # type: ignore[arg-type]
        for case, sizes, more in cases
        for what, detail, mb in in_subprocess([case, ",".join(map(str, sizes)), *more])
    ]


def in_subprocess(arguments: Sequence[str]) -> list[Peak]:
    """The peaks that ``main`` returns in a new process with the environment of a worker."""
    from bench.runs.pool import worker_environment

    environment = os.environ | worker_environment()
    command = [sys.executable, "-m", "bench.speed.memory", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def peak_mb() -> float:
    """Peak memory of this process, MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss: on Linux a new process starts with its parent's.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def main(case: str, sizes: str, *more: str) -> list[Peak]:
    """Measure one case; called in the subprocess.

    Arguments:
        case: ``training``, ``long training`` or ``evaluation``.
        sizes: training steps of each run, steps at which to read the peak, or sizes of test sets; separated by commas.
        more: tasks; of a long training, the factor of its training length.
    """
    import torch

    import bench.runs.run_one  # noqa: F401 (what a worker imports)

    torch.set_num_threads(1)
    if case == "training":
        return [("imports", "what a worker imports", peak_mb()), *train_peaks(int(sizes), more)]
    counts = [int(size) for size in sizes.split(",")]
    if case == "long training":
        return long_training_peaks(counts, int(more[0]))
    return [evaluation_peak(count, more) for count in counts]


def train_peaks(steps: int, tasks: Sequence[str]) -> Iterator[Peak]:
    """Train one run after the other, like a worker, and yield the peak after each."""
    from bench.suites.suite import load_suite

    from .trainee import Trainee

    suite = load_suite(SUITE)
    for task in tasks:
        for encoding in ENCODINGS:
            Trainee(suite, task, encoding).loop(steps)
        yield "training", f"{', '.join(ENCODINGS)} up to task {task}", peak_mb()


def long_training_peaks(steps: Sequence[int], factor: int) -> list[Peak]:
    """Train NoPE on copying at ``factor`` times the length of ``small``; the peaks after the given numbers of steps."""
    from bench.suites.suite import load_suite

    from .trainee import Trainee

    suite = load_suite(SUITE)
    specs = [spec.model_copy(update={"train_length": factor * spec.train_length}) for spec in suite.tasks]
    trainee, peaks = Trainee(suite.model_copy(update={"tasks": specs}), "copying", "nope"), []

    def after_step(state: "TrainingState") -> None:
        if state.step in steps:
            peaks.append(("long training", f"L = {trainee.train_length}, {state.step} steps", peak_mb()))

    trainee.loop(max(steps), after_step)
    return peaks


def evaluation_peak(count: int, names: Sequence[str]) -> Peak:
    """Evaluate test sets of ``count`` examples at L′."""
    import tasks
    from bench.suites.suite import load_suite

    from .trainee import Trainee

    suite = load_suite(SUITE)
    for task in names:
        trainee = Trainee(suite, task, "t5")
        trainee.exact_match(tasks.test_set(trainee.task, trainee.task.longest, count, suite.test_seed))
    return "evaluation", f"{count} examples", peak_mb()


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
