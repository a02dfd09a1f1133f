"""A submission for the tests of ``lprime verify``, made once."""

import shutil
from pathlib import Path

import pytest
from submissions import NAME, SUITE, made

from bench import plugins


@pytest.fixture(scope="session")
def honest(tmp_path_factory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "loaded", plugins.Loaded())
        return made(tmp_path_factory.mktemp("honest"), SUITE)


@pytest.fixture
def folder(honest, tmp_path) -> Path:
    """A copy to tamper with."""
    return Path(shutil.copytree(honest, tmp_path / NAME))
