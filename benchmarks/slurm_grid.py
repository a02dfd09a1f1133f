"""``python benchmarks/slurm_grid.py``: time commands on large, half-finished grids, whose results are copies of one real run of
each task. Nothing is submitted. Needs an idle machine."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
import yaml

from bench.result import RESULT, read_result
from bench.runs.run import plan_runs
from bench.suites.suite import load_suite

SIZES = [1_000, 10_000, 100_000]
COMMANDS = {
    "status": ["status", "big.yaml"],
    "run --dry-run": ["run", "big.yaml", "--on", "site.yaml", "--dry-run"],
    "board": ["board", "big.yaml", "--json"],
    "export": ["export", "--suite", "big.yaml", "--to", "big.csv", "--force"],
}


def main(runs: Annotated[list[int], typer.Option(min=80, help="Of a grid (repeatable).")] = SIZES) -> None:
    """Time the commands that read the state of a large grid."""
    for count in runs:
        with tempfile.TemporaryDirectory() as scratch:
            total, done = write_large_grid(Path(scratch), count)
            times = [f"{name} {time_command(Path(scratch), command):.2f}" for name, command in COMMANDS.items()]
            print(f"{total:,} runs, {done:,} of them with results; seconds: {', '.join(times)}", flush=True)


def write_large_grid(folder: Path, runs: int) -> tuple[int, int]:
    """Write ``big.yaml``, ``site.yaml`` and the results of every other seed; returns the numbers of runs and of results."""
    suite = load_suite("quick")
    seeds = list(range(runs // (len(suite.tasks) * len(suite.encodings))))
    recipe = suite.recipe.model_copy(update={"steps": 20, "warmup_steps": 5})
    suite = suite.model_copy(update={"name": "big", "seeds": seeds, "recipe": recipe})
    (folder / "big.yaml").write_text(yaml.safe_dump(suite.model_dump(mode="json")), encoding="utf-8")
    (folder / "site.yaml").write_text(yaml.safe_dump({"partition": "main", "time_minutes": 60, "runs_per_job": 1}))
    time_command(folder, ["run", "big.yaml", "--encoding=nope", "--seed=0", "--workers=1"])
    templates = {path.parts[-4]: read_result(path) for path in (folder / "runs").rglob(RESULT)}
    planned = plan_runs(load_suite(str(folder / "big.yaml")))
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
