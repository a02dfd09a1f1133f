"""A submission for the tests of ``lprime verify``, made once."""

import shutil
from pathlib import Path

import pytest
from submissions import NAME, SUITE, made_apart


@pytest.fixture(scope="session")
def honest(tmp_path_factory) -> Path:
    return made_apart(tmp_path_factory.mktemp("honest"), SUITE)


@pytest.fixture
def folder(honest, tmp_path) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(honest, tmp_path / NAME))
