"""Helpers of all tests: a tiny suite, the command line, and git."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
CHANGING = ("timings", "started", "finished", "commit", "weights")
"""Keys of a result that differ between equal runs."""


def suite_dict(**changes: object) -> dict:
    """The quick suite, reduced to one second per run, with changes of top-level keys (nested mappings are merged)."""
    content = yaml.safe_load((ROOT / "bench/suites/quick.yaml").read_text())
    small = {
        "name": "tiny",
        "recipe": {"steps": 40, "batch": 16, "warmup_steps": 5},
        "model": {"layers": 1, "width": 16, "heads": 2, "mlp_width": 32},
        "test_at": [0.5, 1, 1.5, 2],
        "test_examples": 16,
        "encodings": ["nope", "t5"],
        "tasks": [
            {"task": "copying", "variant": "repeat", "train_length": 4},
            {"task": "parity", "variant": "answer", "train_length": 4},
        ],
    }
    for source in (small, changes):
        for key, value in source.items():
            content[key] = content[key] | value if isinstance(value, dict) and key in content else value
    return content


@contextlib.contextmanager
def new_registry() -> Iterator[None]:
    """No plugin is loaded in this block, as in a new process."""
    import tasks
    from bench.plugins import registry  # loads torch, which most tests do without
    from bench.runs.shared_training import trained_as

    with pytest.MonkeyPatch.context() as patch:
        for name in ("loaded", "files", "sources"):
            patch.setattr(registry, name, {})
        patch.setattr(tasks, "added", {})
        trained_as.cache_clear()
        yield
    trained_as.cache_clear()


def lprime(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess:
    """Run ``lprime`` in this process as a new one would: that would first load torch, for seconds."""
    from lprime.cli import main

    command, out, err = list(map(str, arguments)), io.StringIO(), io.StringIO()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with (
            contextlib.chdir(cwd or os.getcwd()),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            new_registry(),
            pytest.raises(SystemExit) as done,
        ):
            main(command)
    finally:
        signal.signal(signal.SIGTERM, handler)
    return subprocess.CompletedProcess(command, done.value.code, out.getvalue(), err.getvalue())


started: list[subprocess.Popen] = []
"""Processes of the present test; it ends them, also when it fails."""


def start_lprime(*arguments: object, **options) -> subprocess.Popen:
    """Start ``lprime`` in a new process, the first of its group. Its stdout and stderr are pipes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lprime", *map(str, arguments)],
        text=True,
        start_new_session=True,
        # Tests in the background of a script ignore Ctrl-C, and child processes would inherit that.
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": heed_ctrl_c} | options,
    )
    started.append(process)
    return process


def end_started() -> None:
    """Kill what ``start_lprime`` started, with all workers."""
    while started:
        if (process := started.pop()).poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def heed_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for(process: subprocess.Popen, out: Path, pattern: str) -> None:
    """Wait for a file under ``out``; fail if the command ends first, or after a minute."""
    deadline = time.monotonic() + 60
    while not list(out.rglob(pattern)):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.05)


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, with an identity of its own and none of the settings of this process; its stdout."""
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", *settings, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def results(out: Path) -> dict[str, dict]:
    """All results below a folder, without the keys that differ between equal runs."""
    found = {}
    for path in sorted(out.rglob("result.json")):
        content = json.loads(path.read_text())
        found[str(path.relative_to(out))] = {k: v for k, v in content.items() if k not in CHANGING}
    return found
