"""A grid on the test cluster, run by the real command in real jobs."""

import json
import os
import re
import subprocess
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from support import lprime, results, start_lprime, suite_dict

from bench.result import RESULT
from bench.runs.run import plan_runs
from bench.runs.run_lock import HEARTBEAT, read_heartbeat
from bench.runs.run_one import run_one
from bench.suites.suite import load_suite

PATIENCE_S = 240
T = TypeVar("T")


def wait_until(what: str, look: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """Call ``look`` until it returns something true. Returns that."""
    deadline = time.monotonic() + patience_s
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience_s} s for {what}")
        time.sleep(0.05)
    return seen


def slurm(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@dataclass
class Grid:
    """One suite, one cluster file, one results folder."""

    folder: Path
    suite: dict[str, Any]
    cluster: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.out = self.folder / "runs"
        self.suite_file, self.cluster_file = self.folder / "suite.yaml", self.folder / "cluster.yaml"
        self.suite_file.write_text(yaml.safe_dump(self.suite))
        defaults = {"partition": "main", "time_minutes": 10, "memory_gb": 2, "runs_per_job": 1, "checkpoint_every_s": 1}
        self.cluster_file.write_text(yaml.safe_dump(defaults | self.cluster))

    @property
    def name(self) -> str:
        return self.suite["name"]

    def lprime(self, command: str, *arguments: object) -> subprocess.CompletedProcess:
        """Run a command to its end, in this process."""
        return lprime(command, self.suite_file, "--out", self.out, *arguments)

    def start(self, command: str, *arguments: object, **environment: str) -> subprocess.Popen:
        """Start a command in a new process, with more variables in its environment."""
        more = {"stderr": subprocess.STDOUT, "env": os.environ | environment}
        return start_lprime(command, self.suite_file, "--out", self.out, *arguments, **more)

    def submit(self) -> str:
        """Submit all runs. Returns the command's output."""
        done = self.lprime("run", "--on", self.cluster_file, "--detach")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def status(self) -> list[dict[str, Any]]:
        done = self.lprime("status", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def lost(self) -> list[dict[str, Any]]:
        """The status once the accounting, which lags behind the queue, says for every run not done why its job ended."""

        def explained() -> list[dict[str, Any]]:
            rows = self.status()
            left = [row for row in rows if row["state"] != "done"]
            return rows if all(row["state"] not in ("queued", "running") and "reason" in row for row in left) else []

        return wait_until("the reasons why jobs ended", explained)

    def states(self) -> list[str]:
        return sorted(row["state"] for row in self.status())

    def records(self) -> list[Path]:
        """Folders of submissions."""
        return sorted(path.parent for path in self.out.glob(f"{self.name}/.slurm/*/plan.json"))

    def starts(self) -> dict[int, int]:
        """How often the job with each share has started."""
        logs = {int(path.stem): path.read_text() for folder in self.records() for path in folder.glob("*.log")}
        found = {share: re.findall(r" to do, start (\d+) on ", log) for share, log in logs.items()}
        return {share: int(starts[-1]) for share, starts in found.items() if starts}

    def steps(self) -> list[int]:
        """Last reported steps of the runs under way."""
        beats = [read_heartbeat(path.parent) for path in self.out.rglob(HEARTBEAT)]
        return [beat.step for beat in beats if beat]

    def trained(self, step: int, runs: int = 1) -> bool:
        """Whether so many runs under way have reached this step."""
        return sum(at >= step for at in self.steps()) >= runs

    def log(self) -> str:
        """Output of all jobs."""
        return "".join(path.read_text() for path in sorted(self.out.glob(f"{self.name}/.slurm/*/*.log")))

    def nodes(self) -> dict[str, str]:
        """Our jobs: id → node, empty while it waits."""
        rows = [line.split("|", 2) for line in slurm("squeue", "-h", "-r", "-o", "%i|%N|%j").splitlines()]
        return {id: node for id, node, name in rows if name.startswith(f"lprime-{self.name}-")}

    def queue(self) -> list[str]:
        """Ids of our jobs."""
        return list(self.nodes())

    def local(self) -> dict[str, dict]:
        """Results of the same grid on this machine, the oracle."""
        out = self.folder / "local"
        done = lprime("run", self.suite_file, "--out", out, "--workers", 2)
        assert done.returncode == 0, done.stdout + done.stderr
        return results(out)

    def release(self) -> None:
        """Let the runs of a suite by ``paced`` go on at full speed."""
        (self.folder.parent / HOLD).unlink(missing_ok=True)

    def finish(self) -> None:
        """Release the runs, and wait until no job is in the queue."""
        self.release()
        wait_until("the grid's jobs to end", lambda: not self.queue())


def write_encoding(path: Path, body: str = "pass") -> Path:
    """Write an encoding that is named like the file and does what ``body``, the end of its class, says."""
    path.write_text(
        f"""
from bench.encodings import Encoding, Info

class {path.stem.capitalize()}(Encoding):
    info = Info(
        name="{path.stem}", family="test", title="A test", authors="Nobody", year=2026, link="https://example.org",
        formula="q·k", past="a test", provenance="a test", shift_invariant=True
    )

{textwrap.indent(body, "    ")}
"""
    )
    return path


def short(name: str, steps: int = 60, **changes: object) -> dict:
    """A tiny suite."""
    return suite_dict(name=name, recipe={"steps": steps}, **changes)


HOLD = "hold"
"""File next to a grid: while it exists, runs of ``paced`` suites are slow."""
SLEEPY = """
def embed(self, x, at):
    import os, time
    time.sleep(PACE_S if os.path.exists("FILE") else 0)
    return x
"""


def paced(folder: Path, name: str, steps: int = 300, pace_s: float = 0.2, **changes: object) -> dict:
    """A tiny suite for a grid in this folder, whose runs take ``pace_s`` seconds a step until the grid releases them, however
    fast the machine: meanwhile something can happen to them."""
    (folder / HOLD).touch()
    body = SLEEPY.replace("PACE_S", str(pace_s)).replace("FILE", str(folder / HOLD))
    return short(name, steps, encodings=[str(write_encoding(folder / "sleepy.py", body))], **changes)


def write_large_grid(folder: Path, runs: int) -> tuple[int, int]:
    """Write ``big.yaml``, ``site.yaml`` and, as copies of one real run of each task, the results of every other seed.

    Returns:
        The numbers of runs and of results.
    """
    suite = load_suite("quick")
    seeds = list(range(runs // (len(suite.tasks) * len(suite.encodings))))
    recipe = suite.recipe.model_copy(update={"steps": 20, "warmup_steps": 5})
    suite = suite.model_copy(update={"name": "big", "seeds": seeds, "recipe": recipe})
    (folder / "big.yaml").write_text(yaml.safe_dump(suite.model_dump(mode="json")))
    (folder / "site.yaml").write_text(yaml.safe_dump({"partition": "main", "time_minutes": 60, "runs_per_job": 1}))
    planned = plan_runs(load_suite(str(folder / "big.yaml")))
    finished = [run for run in planned if run.seed % 2 == 0]
    templates = {run.task: run_one(run, folder / "real", "cpu") for run in finished if run.key[1:3] == ("nope", 0)}
    for run in finished:
        template = templates[run.task]
        encoding = template.encoding.model_copy(update={"name": run.encoding})
        copy = template.model_copy(update={"seed": run.seed, "encoding": encoding})
        run.folder(folder / "runs").mkdir(parents=True)
        (run.folder(folder / "runs") / RESULT).write_text(copy.model_dump_json(indent=1) + "\n")
    return len(planned), len(finished)
