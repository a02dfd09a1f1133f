"""What a grid costs beside training and evaluation: a part of ``quick`` by the real command, watched from outside."""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from bench.results import RESULT, read_result
from bench.runs import LOCK
from bench.runs import plan as runs_of
from bench.suite import Suite, load_suite
from bench.train import Stopped
from bench.work import execute
from tasks import InputError

from .plan import Plan
from .record import Overhead

SUITE = "quick"
ROUNDS = 3
"""Of start-ups, and of imports by themselves."""
IMPORTS = (
    "from bench.cli import app; import bench.pool, bench.progress, bench.runs, bench.suite, bench.work; "
    "from bench import encodings; encodings.catalogue()",
    "import multiprocessing, torch, bench.worker, bench.train, bench.work; from bench import encodings; encodings.catalogue(); "
    # torch imports its compiler, a second's work, when the first optimiser is made.
    "torch.optim.AdamW([torch.zeros(1)])",
)
"""What the command imports before it starts a worker, and what the worker does."""
LEAVE = "; import os; os._exit(0)"
"""An interpreter with torch takes up to two seconds to clean up behind itself, which no run waits for."""


def measure(plan: Plan, say: Callable[[str], None]) -> Overhead:
    say(f"overhead: a part of {SUITE}")
    suite = load_suite(SUITE)
    if plan.grid_steps:
        suite = suite.model_copy(update={"recipe": suite.recipe.model_copy(update={"steps": plan.grid_steps})})
    with tempfile.TemporaryDirectory() as scratch:
        return watch(suite, plan, Path(scratch))


def watch(suite: Suite, plan: Plan, scratch: Path) -> Overhead:
    encodings, tasks = plan.grid
    file = scratch / "suite.yaml"
    file.write_text(yaml.safe_dump(suite.model_dump(mode="json")), encoding="utf-8")
    out = scratch / "runs"
    chosen = [f"--encoding={name}" for name in encodings] + [f"--task={name}" for name in tasks] + ["--seed=0"]
    command = [sys.executable, "-m", "bench.cli", "run", str(file), *chosen, "--workers=1", "--device=cpu"]
    runs = runs_of(suite, encodings, tasks, [0])
    # In turns, so that a slow moment meets both; the last of them goes on to the end.
    imports, begun = [], []
    for n in range(ROUNDS):
        last = n == ROUNDS - 1
        place = out if last else scratch / f"start-{n}"
        imports.append(sum(seconds([sys.executable, "-c", code + LEAVE]) for code in IMPORTS))
        begun.append(to_first_run([*command, f"--out={place}"], runs[0].folder(place), scratch / "log", last))
    files = [run.folder(out) / RESULT for run in runs]
    earliest, *others = (read_result(file).timings for file in files)
    return Overhead(
        runs=len(others),
        wall_s=files[-1].stat().st_mtime - files[0].stat().st_mtime,
        train_s=sum(timings.train_s for timings in others),
        evaluate_s=sum(timings.evaluate_s for timings in others),
        to_first_run_s=statistics.median(begun),
        first_run_rest_s=earliest.total_s - earliest.train_s - earliest.evaluate_s,
        imports_s=statistics.median(imports),
        first_step_s=first_step(suite, plan, scratch),
    )


def to_first_run(command: list[str], folder: Path, log: Path, whole: bool) -> float:
    """From the command to the beginning of its first run, in ``folder``; then to the end of them all if ``whole``."""
    with log.open("w") as text:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=text, stderr=text)
        while process.poll() is None and not ((folder / LOCK).exists() or (folder / RESULT).exists()):
            time.sleep(0.002)
        begun = time.perf_counter() - start
        if not whole and process.poll() is None:
            process.terminate()
        process.wait()
    if process.returncode and whole:
        raise InputError(f"lprime run ended with {process.returncode}: {' '.join(log.read_text().split()[-40:])}")
    return begun


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def first_step(suite: Suite, plan: Plan, scratch: Path) -> float:
    """From the start of a run to the end of its first step, in a process that has everything imported."""
    start = time.perf_counter()
    ended: list[float] = []

    def stopping() -> bool:  # asked after every step
        ended.append(time.perf_counter() - start)
        return True

    try:
        execute(runs_of(suite, plan.grid[0], plan.grid[1], [0])[0], scratch / "first", "cpu", stopping=stopping)
    except Stopped:
        return ended[0]
    raise AssertionError("a run that is told to stop stops")
