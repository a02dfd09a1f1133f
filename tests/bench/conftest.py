"""Fixtures of the tests of ``bench``."""

from pathlib import Path

import pytest

from bench.plugins import registry


@pytest.fixture
def fresh_registry(monkeypatch):
    """No plugin is loaded, as in a new process."""
    monkeypatch.setattr(registry, "loaded", registry.Loaded())


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
