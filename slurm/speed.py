"""``python -m slurm.speed``: how long ``lprime status`` and ``run --dry-run`` take on a large grid, half of it with results.

The results are copies of one real run's. Where a controller answers (SLURM_CONF of the test cluster, or of a site that has a
partition ``main``) the dry run asks it as always; nothing is submitted. Wants an idle machine.
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

RUNS_A_SEED = 5 * 8
"""Five tasks, eight encodings."""
ENCODINGS = ("nope", "t5", "rope", "alibi", "learned", "sinusoidal", "randomised(rope)", "fire")


def speed(
    runs: Annotated[int, typer.Option(min=2 * RUNS_A_SEED, help="Runs of the grid, in whole seeds.")] = 10_000,
    repeats: Annotated[int, typer.Option(min=1, help="How often each command is timed.")] = 5,
) -> None:
    """Time the commands that a lab waits for on a grid of many runs."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        total, done = build(folder, runs)
        commands = {
            "status": ["status", "big.yaml"],
            "status --json": ["status", "big.yaml", "--json"],
            "run --dry-run": ["run", "big.yaml", "--on", "site.yaml", "--dry-run"],
        }
        asked = "asked" if answers() else "not here"
        print(f"{total:,} runs, {done:,} of them with results; SLURM {asked}; {repeats} times each, in seconds")
        for name, command in commands.items():
            taken = [timed(folder, command) for _ in range(repeats)]
            print(f"{name:14} median {statistics.median(taken):.2f}   {min(taken):.2f} to {max(taken):.2f}")


def build(folder: Path, runs: int) -> tuple[int, int]:
    """``big.yaml``, ``site.yaml`` and the results of every other seed, in ``folder/runs``; how many runs, and how many done."""
    from bench.results import RESULT, read_result
    from bench.runs import plan
    from bench.suite import load_suite

    content = load_suite("quick").model_dump(mode="json")
    content |= {"name": "big", "encodings": list(ENCODINGS), "seeds": list(range(runs // RUNS_A_SEED))}
    content["recipe"] |= {"steps": 20, "warmup_steps": 5}
    (folder / "big.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    (folder / "site.yaml").write_text(yaml.safe_dump({"partition": "main", "time_minutes": 60, "runs_per_job": 1}))
    timed(folder, ["run", "big.yaml", "--task=parity", "--encoding=nope", "--seed=0", "--workers=1"])
    suite = load_suite(str(folder / "big.yaml"))
    planned = plan(suite)
    one = read_result(folder / "runs/big/parity/nope/seed-0" / RESULT)
    finished = [run for run in planned if run.seed % 2 == 0]
    for run in finished:
        about = one.encoding.model_copy(update={"name": run.encoding})
        copy = one.model_copy(update={"task": run.task, "seed": run.seed, "encoding": about})
        place = run.folder(folder / "runs")
        place.mkdir(parents=True, exist_ok=True)
        (place / RESULT).write_text(copy.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return len(planned), len(finished)


def answers() -> bool:
    """Whether SLURM is here and its controller at work."""
    return shutil.which("scontrol") is not None and not subprocess.run(["scontrol", "ping"], capture_output=True).returncode


def timed(folder: Path, arguments: list[str]) -> float:
    """Seconds that the real command takes, in a process of its own."""
    environment = os.environ if answers() else os.environ | {"PATH": ""}  # as where SLURM is not installed
    command = [sys.executable, "-m", "bench.cli", *arguments]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"slurm.speed: lprime {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return time.perf_counter() - start


if __name__ == "__main__":
    typer.run(speed)
