"""What all tests share: one thread, so that bit-for-bit claims can be held to, and a suite of seconds."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]


def suite_dict(**changes: object) -> dict:
    """The quick suite, shrunk to a second a run, with changes of top-level keys (nested mappings are merged)."""
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


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Path]:
    """Writes a tiny suite to a file: ``tiny(seeds=[0, 1])`` is its path."""

    def write(**changes: object) -> Path:
        path = tmp_path / "tiny.yaml"
        path.write_text(yaml.safe_dump(suite_dict(**changes)))
        return path

    return write


def lprime(*arguments: object, cwd: Path | None = None, **more) -> subprocess.CompletedProcess:
    """The real command in a process of its own."""
    command = [sys.executable, "-m", "bench.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120, **more)
