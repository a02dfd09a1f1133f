"""Peak memory, each case in its own process: ``python -m bench.speed.memory CASE …`` prints the peaks as JSON."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from .plan import Plan
from .record import Memory
from .timing import log

SUITE = "small"
ENCODINGS = ("nope", "rope", "alibi", "t5")
Peak = tuple[str, str, float]
"""Description, details, and the peak memory of the process so far in MiB, which never decreases."""


def measure_memory(plan: Plan) -> list[Memory]:
    """Measure a worker that trains, and one that evaluates few and then many examples."""
    log("memory")
    return [
        Memory(what=what, detail=detail, mb=mb)  # type: ignore[arg-type]
        for case, sizes in {"training": (plan.memory_steps,), "evaluation": plan.memory_examples}.items()
        for what, detail, mb in in_subprocess([case, ",".join(map(str, sizes)), *plan.tasks])
    ]


def in_subprocess(arguments: Sequence[str]) -> list[Peak]:
    """The peaks that ``main`` returns in a new process with one thread, like a worker's."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
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


def main(case: str, sizes: str, *tasks: str) -> list[Peak]:
    """Measure one case; called in the subprocess.

    Arguments:
        case: ``training`` or ``evaluation``.
        sizes: training steps of each run, or sizes of test sets separated by commas.
    """
    import torch

    import bench.runs.run_one  # noqa: F401 (what a worker imports)

    torch.set_num_threads(1)
    if case == "training":
        return [("imports", "what a worker imports", peak_mb()), *train_peaks(int(sizes), tasks)]
    return [evaluation_peak(int(size), tasks) for size in sizes.split(",")]


def train_peaks(steps: int, tasks: Sequence[str]) -> Iterator[Peak]:
    """Train one run after the other, like a worker, and yield the peak after each."""
    from bench.suites.suite import load_suite

    from .trainee import Trainee

    suite = load_suite(SUITE)
    for task in tasks:
        for encoding in ENCODINGS:
            Trainee(suite, task, encoding).loop(steps)
        yield "training", f"{', '.join(ENCODINGS)} up to task {task}", peak_mb()


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
