"""A grid on the test cluster, run by the real command in real jobs."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from support import ROOT, results, suite_dict

PATIENCE_S = 240
GRID_S = 1500
"""Timeout of a command: all of ``quick``, with three other clusters on the same cores."""
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
    environment: dict[str, str] = field(default_factory=dict)

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

    def command(self, *arguments: object) -> list[str]:
        command, *rest = arguments
        place = ["--out", str(self.out)]
        return [sys.executable, "-m", "lprime", str(command), str(self.suite_file), *place, *map(str, rest)]

    def lprime(self, *arguments: object) -> subprocess.CompletedProcess:
        """Run the command to its end."""
        environment = os.environ | self.environment
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=GRID_S, env=environment)

    def start(self, *arguments: object) -> subprocess.Popen:
        """Start the command in the background."""
        return subprocess.Popen(
            self.command(*arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env=os.environ | self.environment,
            # Tests in the background of a script ignore Ctrl-C, and child processes would inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def submit(self, *arguments: object) -> str:
        """Submit all runs. Returns the command's output."""
        done = self.lprime("run", "--on", self.cluster_file, "--detach", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def status(self) -> list[dict[str, Any]]:
        done = self.lprime("status", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def states(self) -> list[str]:
        return sorted(row["state"] for row in self.status())

    def records(self) -> list[Path]:
        """Folders of submissions."""
        return sorted(path.parent for path in self.out.glob(f"{self.name}/.slurm/*/plan.json"))

    def progress(self) -> list[dict[str, Any]]:
        """Progress files of all jobs."""
        return [json.loads(path.read_text()) for folder in self.records() for path in folder.glob("progress/*.json")]

    def trained(self, step: int) -> bool:
        """Whether some run under way has reached this step."""
        return any(beat["step"] >= step for progress in self.progress() for beat in progress["beats"])

    def log(self) -> str:
        """Output of all jobs."""
        return "".join(path.read_text() for path in sorted(self.out.glob(f"{self.name}/.slurm/*/*_log.*")))

    def queue(self) -> dict[str, str]:
        """Our jobs: id → state."""
        lines = slurm("squeue", "-h", "-r", "-o", "%i|%j|%T").splitlines()
        rows = [line.split("|") for line in lines]
        return {id: state for id, name, state in rows if name.startswith(f"lprime-{self.name}-")}

    def local(self) -> dict[str, dict]:
        """Results of the same grid by the local pool, the oracle."""
        out = self.folder / "local"
        command = [sys.executable, "-m", "lprime", "run", str(self.suite_file), "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=GRID_S, env=os.environ | self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return results(out)

    def finish(self) -> None:
        """Wait until no job is in the queue."""
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


def paced(name: str, steps: int, **changes: object) -> dict:
    """A tiny suite whose runs take at least a second for each 50 steps, and meanwhile something can happen to them."""
    return short(name, steps, encodings=[str(ROOT / "tests/slurm/sleepy.py")], **changes)
