"""``python -m slurm.benchmarks.large_grid``: time ``lprime status`` and ``run --dry-run`` on a large, half-finished grid.

All results are copies of the result of one real run. If a SLURM controller answers (SLURM_CONF of the test cluster, or of a
site with a partition ``main``), the dry run asks it as usual; nothing is submitted. Needs an idle machine.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
import yaml

RUNS_PER_SEED = 5 * 8
"""Five tasks, eight encodings."""
ENCODINGS = ("nope", "t5", "rope", "alibi", "learned", "sinusoidal", "randomised(rope)", "fire")


def time_commands(
    runs: Annotated[int, typer.Option(min=2 * RUNS_PER_SEED, help="Runs of the grid, in whole seeds.")] = 10_000,
    repeats: Annotated[int, typer.Option(min=1, help="How often each command is timed.")] = 5,
) -> None:
    """Time the commands that read the state of a large grid."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        total, done = write_large_grid(folder, runs)
        commands = {
            "status": ["status", "big.yaml"],
            "status --json": ["status", "big.yaml", "--json"],
            "run --dry-run": ["run", "big.yaml", "--on", "site.yaml", "--dry-run"],
        }
        controller = "answers" if slurm_answers() else "not available"
        print(f"{total:,} runs, {done:,} of them with results; SLURM {controller}; {repeats} times each, in seconds")
        for name, command in commands.items():
            seconds = [time_command(folder, command) for _ in range(repeats)]
            print(f"{name:14} median {statistics.median(seconds):.2f}   {min(seconds):.2f} to {max(seconds):.2f}")


def write_large_grid(folder: Path, runs: int) -> tuple[int, int]:
    """Write ``big.yaml``, ``site.yaml`` and, in ``folder/runs``, the results of every other seed.

    Returns:
        Number of runs, and of those with results.
    """
    from bench.result import RESULT, read_result
    from bench.runs.run import plan_runs
    from bench.suites.suite import load_suite

    content = load_suite("quick").model_dump(mode="json")
    content |= {"name": "big", "encodings": list(ENCODINGS), "seeds": list(range(runs // RUNS_PER_SEED))}
    content["recipe"] |= {"steps": 20, "warmup_steps": 5}
    (folder / "big.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    (folder / "site.yaml").write_text(yaml.safe_dump({"partition": "main", "time_minutes": 60, "runs_per_job": 1}))
    time_command(folder, ["run", "big.yaml", "--task=parity", "--encoding=nope", "--seed=0", "--workers=1"])
    suite = load_suite(str(folder / "big.yaml"))
    planned = plan_runs(suite)
    template = read_result(folder / "runs/big/parity/nope/seed-0" / RESULT)
    finished = [run for run in planned if run.seed % 2 == 0]
    for run in finished:
        encoding = template.encoding.model_copy(update={"name": run.encoding})
        copy = template.model_copy(update={"task": run.task, "seed": run.seed, "encoding": encoding})
        run_folder = run.folder(folder / "runs")
        run_folder.mkdir(parents=True, exist_ok=True)
        (run_folder / RESULT).write_text(copy.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return len(planned), len(finished)


def slurm_answers() -> bool:
    """Whether SLURM is installed and its controller responds."""
    return shutil.which("scontrol") is not None and not subprocess.run(["scontrol", "ping"], capture_output=True).returncode


def time_command(folder: Path, arguments: list[str]) -> float:
    """Seconds of the real command, in its own process."""
    environment = os.environ if slurm_answers() else os.environ | {"PATH": ""}  # an empty PATH hides a SLURM that is down
    command = [sys.executable, "-m", "lprime", *arguments]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"lprime {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return time.perf_counter() - start


if __name__ == "__main__":
    typer.run(time_commands)
