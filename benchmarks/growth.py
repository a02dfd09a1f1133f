"""``python benchmarks/growth.py 1000 10000 100000``: CPU seconds and memory of commands over that many finished runs.

The runs are copies of a real one of suite ``small`` with other scores: its tasks and rates, one seed for 20 encodings, which are
RoPE with other bases. Prints a table.
"""

import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
import yaml

from bench.result import RESULT
from bench.runs.run import plan_runs
from bench.suites.suite import load_suite, shipped

COMMANDS = {
    "status": "status grown.yaml --json",
    "dry run": "run grown.yaml --dry-run",
    "board": "board grown.yaml --json",
    "export": "export --suite grown.yaml --to table.csv --force",
}


def main(counts: Annotated[list[int], typer.Argument(metavar="RUNS…")]) -> None:
    """Time commands over many runs."""
    print("| runs | encodings | seeds | " + " | ".join(f"{name}, s | GB" for name in COMMANDS) + " |")
    print("|--:" * (3 + 2 * len(COMMANDS)) + "|")
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            cells = [*write_runs(Path(folder), count), *(cell for line in COMMANDS.values() for cell in measure(folder, line))]
            print(f"| {' | '.join(cells)} |", flush=True)


def write_runs(folder: Path, count: int) -> list[str]:
    """Write a suite and its results; returns the numbers of runs, encodings and seeds."""
    content = yaml.safe_load(shipped()["small"].read_text())
    each = len(content["tasks"]) * len(content["learning_rates"])
    seeds = max(3, round((count / each / 20) ** 0.5))
    names = [f"rope(base={1000 + number}.0)" for number in range(count // each // seeds)]
    (folder / "grown.yaml").write_text(yaml.safe_dump(content | {"name": "grown", "encodings": names, "seeds": [*range(seeds)]}))
    suite, rng = load_suite(str(folder / "grown.yaml")), random.Random(0)
    with gzip.open(Path(__file__).parent / "runs/small.jsonl.gz") as kept:
        one = json.loads(kept.readline()) | {"task_sha256": ""}
    runs = plan_runs(suite)
    for run in runs:
        own = run.identity | {"encoding": one["encoding"] | {"name": run.encoding}}
        own["scores"] = [
            one["scores"][0] | {"length": length, "exact": rng.random(), "nll": rng.random()}
            for length in run.recipe_suite.test_lengths(run.task)
        ]
        path = folder / "runs" / run.path
        path.mkdir(parents=True)
        (path / RESULT).write_text(json.dumps(one | own, indent=1))
    return [f"{number:,}" for number in (len(runs), len(names), seeds)]


def measure(folder: str, line: str) -> tuple[str, str]:
    """CPU seconds and GB of a command."""
    command = [sys.executable, "-m", "lprime", *line.split()]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{line} ended with {os.waitstatus_to_exitcode(status)}")
    return f"{used.ru_utime + used.ru_stime:.1f}", f"{used.ru_maxrss / 2**20:.2f}"


if __name__ == "__main__":
    typer.run(main)
