"""Every synthetic task in every variant, as the fixture ``task``."""

import pytest

import tasks

CASES = [(name, variant) for name, cls in tasks.catalogue().items() for variant in cls.variants if name != "text"]
"""``text`` reads documents and has tests of its own."""


@pytest.fixture(scope="session", params=CASES, ids="-".join)
def task(request: pytest.FixtureRequest) -> tasks.Task:
    """One task in one variant, for lengths up to 10."""
    return tasks.get(*request.param, longest=10)
