"""``python benchmarks/slurm_grid.py``: time the launcher's and the readers' commands on large, half-finished grids.

All results are copies of the result of one real run of each task. Nothing is submitted. Needs an idle machine.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
import yaml

ENCODINGS = ("nope", "t5", "rope", "alibi", "learned", "sinusoidal", "randomised(rope)", "fire")
RUNS_PER_SEED = 5 * len(ENCODINGS)
"""Five tasks."""
COMMANDS = {
    "status": ["status", "big.yaml"],
    "run --dry-run": ["run", "big.yaml", "--on", "site.yaml", "--dry-run"],
    "board": ["board", "big.yaml", "--json"],
    "export": ["export", "--suite", "big.yaml", "--to", "big.csv", "--force"],
}


def main(
    runs: Annotated[
        list[int] | None,
        typer.Option(min=2 * RUNS_PER_SEED, help="Runs of a grid (repeatable) [default: 1000, 10000, 100000]."),
    ] = None,
) -> None:
    """Time the commands that read the state of a large grid."""
    for count in runs or (1_000, 10_000, 100_000):
        with tempfile.TemporaryDirectory() as scratch:
            total, done = write_large_grid(Path(scratch), count)
            times = [f"{name} {time_command(Path(scratch), command):.2f}" for name, command in COMMANDS.items()]
            print(f"{total:,} runs, {done:,} of them with results; seconds: {', '.join(times)}", flush=True)


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
    planned = plan_runs(load_suite(str(folder / "big.yaml")))
    time_command(folder, ["run", "big.yaml", "--encoding=nope", "--seed=0", "--workers=1"])
    first = {run.task: run for run in planned if (run.encoding, run.seed) == ("nope", 0)}
    templates = {task: read_result(run.folder(folder / "runs") / RESULT) for task, run in first.items()}
    finished = [run for run in planned if run.seed % 2 == 0]
    for run in finished:
        template = templates[run.task]
        encoding = template.encoding.model_copy(update={"name": run.encoding})
        copy = template.model_copy(update={"seed": run.seed, "encoding": encoding})
        run_folder = run.folder(folder / "runs")
        run_folder.mkdir(parents=True, exist_ok=True)
        (run_folder / RESULT).write_text(copy.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return len(planned), len(finished)


def time_command(folder: Path, arguments: list[str]) -> float:
    """Seconds of the real command, in its own process, which finds no SLURM."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "lprime", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=os.environ | {"PATH": ""})
    if done.returncode:
        sys.exit(f"lprime {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return time.perf_counter() - start


if __name__ == "__main__":
    typer.run(main)
