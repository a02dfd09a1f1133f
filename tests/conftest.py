"""Settings and fixtures of all tests. One thread, so that results are bit-for-bit reproducible."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest
import yaml
from support import end_started, new_registry, suite_dict

os.environ.setdefault("OMP_NUM_THREADS", "1")
hypothesis.settings.register_profile("lprime", deadline=None)  # do not fail on a busy machine
hypothesis.settings.load_profile("lprime")


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., Path]:
    """Write a tiny suite to a file: ``tiny(seeds=[0, 1])`` returns its path."""

    def write(**changes: object) -> Path:
        path = tmp_path / "tiny.yaml"
        path.write_text(yaml.safe_dump(suite_dict(**changes)))
        return path

    return write


@pytest.fixture(autouse=True)
def nothing_runs_on() -> Iterator[None]:
    """A test that fails leaves no training behind."""
    yield
    end_started()


@pytest.fixture
def fresh_registry() -> Iterator[None]:
    """No plugin is loaded, as in a new process."""
    with new_registry():
        yield


@pytest.fixture
def here(tmp_path: Path, monkeypatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def undrawn(monkeypatch) -> None:
    """Boards have no figures: drawing takes seconds."""
    monkeypatch.setattr("leaderboard.render.publish.figure_files", lambda _: iter(()))
