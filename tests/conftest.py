"""What all tests share: one thread, so that bit-for-bit claims can be held to, and a suite of seconds."""

import os
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
import yaml
from support import suite_dict

os.environ.setdefault("OMP_NUM_THREADS", "1")
hypothesis.settings.register_profile("lprime", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("lprime")


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Path]:
    """Writes a tiny suite to a file: ``tiny(seeds=[0, 1])`` is its path."""

    def write(**changes: object) -> Path:
        path = tmp_path / "tiny.yaml"
        path.write_text(yaml.safe_dump(suite_dict(**changes)))
        return path

    return write
