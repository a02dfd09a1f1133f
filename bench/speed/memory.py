"""Peak memory, each case in a process of its own: ``python -m bench.speed.memory CASE …`` prints what it came to, as JSON."""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from .plan import Plan
from .record import Memory

SUITE = "small"
ENCODINGS = ("nope", "rope", "alibi", "t5")
Peak = tuple[str, str, float]
"""What, of what, and the peak so far in MiB: from one to the next it can only grow."""


def measure(plan: Plan, say: Callable[[str], None]) -> list[Memory]:
    """A worker that trains, and one that evaluates few examples and then many."""
    say("memory")
    return [
        Memory(what=what, detail=detail, mb=mb)  # type: ignore[arg-type]
        for case, sizes in {"training": (plan.memory_steps,), "evaluation": plan.memory_examples}.items()
        for what, detail, mb in in_a_process([case, ",".join(map(str, sizes)), *plan.tasks])
    ]


def in_a_process(arguments: Sequence[str]) -> list[Peak]:
    """What ``main`` prints in a fresh process, which has one thread as a worker has."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "bench.speed.memory", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def peak_mb() -> float:
    """Most memory this process has held, MiB."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not ru_maxrss: to Linux that of a new process begins with what the one that started it held.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def main(case: str, sizes: str, *tasks: str) -> list[Peak]:
    """Training steps of each run, or sizes of test sets; and the tasks."""
    import torch

    import bench.work  # noqa: F401  # what a worker imports

    torch.set_num_threads(1)
    if case == "training":
        return [("imports", "what a worker imports", peak_mb()), *training(int(sizes), tasks)]
    return [evaluation(int(size), tasks) for size in sizes.split(",")]


def training(steps: int, tasks: Sequence[str]) -> Iterator[Peak]:
    """One worker that is given run after run."""
    from bench.suite import load_suite

    from .ours import Trainee

    suite = load_suite(SUITE)
    for task in tasks:
        for encoding in ENCODINGS:
            Trainee(suite, task, encoding).loop(steps)
        yield "training", f"{', '.join(ENCODINGS)} up to task {task}", peak_mb()


def evaluation(count: int, names: Sequence[str]) -> Peak:
    """Test sets of ``count`` examples at L′."""
    import tasks
    from bench.suite import load_suite

    from .ours import Trainee

    suite = load_suite(SUITE)
    for task in names:
        trainee = Trainee(suite, task, "t5")
        length = trainee.task.longest
        trainee.exact_match({length: tasks.test_set(trainee.task, length, count, suite.test_seed)})
    return "evaluation", f"{count} examples", peak_mb()


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
