"""Fixtures of the tests of ``bench``."""

from pathlib import Path

import pytest


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
