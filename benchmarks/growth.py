"""``python benchmarks/growth.py 1000 10000 100000``: CPU seconds and GB of commands over that many made-up runs.

They are copies of a real run of suite ``small`` with random scores: its tasks and rates, one seed for 20 encodings.
"""

import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from bench.result import RESULT
from bench.runs.run import plan_runs
from bench.suites.suite import load_suite, shipped

COMMANDS = ("status grown.yaml", "run grown.yaml --dry-run", "board grown.yaml", "export --to table.csv")


def write_runs(folder: Path, count: int) -> None:
    """Write a suite, ``grown.yaml``, and its results."""
    content = yaml.safe_load(shipped()["small"].read_text())
    each = len(content["tasks"]) * len(content["learning_rates"])
    seeds = max(3, round((count / each / 20) ** 0.5))
    names = [f"rope(base={1000 + number}.0)" for number in range(count // each // seeds)]
    content |= {"name": "grown", "encodings": names, "seeds": [*range(seeds)]}
    (folder / "grown.yaml").write_text(yaml.safe_dump(content))
    kept = gzip.decompress((Path(__file__).parent / "runs/small.jsonl.gz").read_bytes()).splitlines()
    one = json.loads(kept[0]) | {"task_sha256": ""}
    for run in plan_runs(load_suite(str(folder / "grown.yaml"))):
        lengths, score = run.recipe_suite.test_lengths(run.task), one["scores"][0]
        scores = [score | {"length": length, "exact": random.random(), "nll": random.random()} for length in lengths]
        own = run.identity | {"encoding": one["encoding"] | {"name": run.encoding}, "scores": scores}
        (path := folder / "runs" / run.path).mkdir(parents=True)
        (path / RESULT).write_text(json.dumps(one | own, indent=1))


for count in map(int, sys.argv[1:]):
    with tempfile.TemporaryDirectory() as folder:
        write_runs(Path(folder), count)
        for command in COMMANDS:
            arguments = [sys.executable, "-m", "lprime", *command.split()]
            _, status, used = os.wait4(subprocess.Popen(arguments, cwd=folder, stdout=subprocess.DEVNULL).pid, 0)
            seconds, size = used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20
            print(f"{count:8,} {command:26} {seconds:8.1f} s {size:6.2f} GB{', failed' * bool(status)}", flush=True)
