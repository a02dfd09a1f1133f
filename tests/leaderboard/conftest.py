"""A submission for the tests of ``lprime verify``."""

import shutil
from pathlib import Path

import pytest
from submissions import NAME, SUITE, make_submission_apart


@pytest.fixture(scope="session")
def honest(tmp_path_factory) -> Path:
    return make_submission_apart(tmp_path_factory.mktemp("honest"), SUITE)


@pytest.fixture
def folder(honest, tmp_path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(honest, tmp_path / NAME))
