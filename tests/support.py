"""Helpers of all tests: a tiny suite, and the command line in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

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


def lprime(*arguments: object, cwd: Path | None = None, **more) -> subprocess.CompletedProcess:
    """Run ``lprime`` in a new process."""
    command = [sys.executable, "-m", "lprime", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120, **more)


def results(out: Path) -> dict[str, dict]:
    """All results below a folder, without the keys that differ between equal runs."""
    found = {}
    for path in sorted(out.rglob("result.json")):
        content = json.loads(path.read_text())
        found[str(path.relative_to(out))] = {k: v for k, v in content.items() if k not in CHANGING}
    return found
