"""Time of a grid outside training and evaluation, measured on part of suite ``quick``, run by the real command."""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from bench.result import RESULT, read_result
from bench.runs.run import plan_runs
from bench.runs.run_lock import LOCK
from bench.runs.run_one import run_one
from bench.suites.suite import Suite, load_suite
from bench.training.train import Stopped
from tasks import InputError

from .plan import Plan
from .record import Overhead
from .timing import log

SUITE = "quick"
IMPORTS = (
    "from lprime.cli import app; import bench.runs.pool, bench.runs.progress, bench.runs.run; "
    "import bench.suites.suite, bench.runs.run_one; "
    "from bench import encodings; encodings.catalogue()",
    "import multiprocessing, torch, bench.runs.worker, bench.training.train, bench.runs.run_one; "
    "from bench import encodings; encodings.catalogue()",
)
"""Imports of the command before it starts a worker, and of the worker."""
EXIT = "; import os; os._exit(0)"
"""Exits without cleaning up the interpreter, which takes up to two seconds with torch and delays no run."""


def measure_overhead(plan: Plan) -> Overhead:
    log(f"overhead: a part of {SUITE}")
    with tempfile.TemporaryDirectory() as scratch:
        return run_grid(plan.shortened(load_suite(SUITE)), plan, Path(scratch))


def run_grid(suite: Suite, plan: Plan, scratch: Path) -> Overhead:
    encodings, tasks = plan.grid
    file, out = scratch / "suite.yaml", scratch / "runs"
    file.write_text(yaml.safe_dump(suite.model_dump(mode="json")), encoding="utf-8")
    chosen = [f"--encoding={name}" for name in encodings] + [f"--task={name}" for name in tasks] + ["--seed=0"]
    command = [sys.executable, "-m", "lprime", "run", str(file), *chosen, "--workers=1", "--device=cpu"]
    runs = plan_runs(suite, encodings, tasks, [0])
    # Imports and start-ups alternate, so that a slow moment affects both; only the last grid runs to its end.
    imports, starts = [], []
    for n in range(plan.starts):
        last = n == plan.starts - 1
        folder = out if last else scratch / f"start-{n}"
        imports.append(sum(wall_seconds([sys.executable, "-c", code + EXIT]) for code in IMPORTS))
        starts.append(seconds_to_first_run([*command, f"--out={folder}"], runs[0].folder(folder), scratch / "log", last))
    files = [run.folder(out) / RESULT for run in runs]
    first, *others = (read_result(file).timings for file in files)
    return Overhead(
        runs=len(others),
        wall_s=files[-1].stat().st_mtime - files[0].stat().st_mtime,
        train_s=sum(timings.train_s for timings in others),
        evaluate_s=sum(timings.evaluate_s for timings in others),
        to_first_run_s=statistics.median(starts),
        first_run_rest_s=first.total_s - first.train_s - first.evaluate_s,
        imports_s=statistics.median(imports),
        first_step_s=seconds_to_first_step(suite, plan, scratch),
    )


def seconds_to_first_run(command: list[str], folder: Path, log_file: Path, to_end: bool) -> float:
    """From the command to the start of its first run, in ``folder``. The grid is then stopped, or run ``to_end``."""
    with log_file.open("w") as text:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=text, stderr=text)
        while process.poll() is None and not ((folder / LOCK).exists() or (folder / RESULT).exists()):
            time.sleep(0.002)
        seconds = time.perf_counter() - start
        if not to_end and process.poll() is None:
            process.terminate()
        process.wait()
    if process.returncode and to_end:
        raise InputError(f"lprime run ended with {process.returncode}: {' '.join(log_file.read_text().split()[-40:])}")
    return seconds


def wall_seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - start


def seconds_to_first_step(suite: Suite, plan: Plan, scratch: Path) -> float:
    """From the start of a run to the end of its first step, in a process that has everything imported."""
    start = time.perf_counter()
    ends: list[float] = []

    def stopping() -> bool:  # called after every step
        ends.append(time.perf_counter() - start)
        return True

    try:
        run_one(plan_runs(suite, plan.grid[0], plan.grid[1], [0])[0], scratch / "first", "cpu", should_stop=stopping)
    except Stopped:
        return ends[0]
    raise AssertionError("the run did not stop after its first step")
