"""Task generators: copying, addition, parity, key retrieval, sorting, one per file. This package knows nothing of the harness.

A new task is one new file here: every ``Task`` subclass in a module of this package is found by its ``name``.
"""

import importlib
import pkgutil
from functools import cache

from .base import BOS, EOS, PAD, SEP, Examples, Task, Vocabulary
from .errors import InputError, unknown
from .splits import content_hash, test_set, train_batch

__all__ = [
    "BOS", "EOS", "PAD", "SEP", "Examples", "InputError", "Task", "Vocabulary",
    "catalogue", "content_hash", "get", "test_set", "train_batch", "unknown",
]  # fmt: skip


@cache
def catalogue() -> dict[str, type[Task]]:
    """Name → task class, for every task in this package, by name."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    # Tests and notebooks may define tasks of their own; those are no part of the benchmark.
    ours = [cls for cls in Task.__subclasses__() if cls.__module__.startswith(f"{__name__}.")]
    return {cls.name: cls for cls in sorted(ours, key=lambda cls: cls.name)}


def get(name: str, variant: str | None = None, longest: int = 50) -> Task:
    """One task, ready to sample.

    Raises:
        InputError: an unknown name or variant, with the nearest match.
    """
    if name not in catalogue():
        raise unknown("task", name, catalogue())
    return catalogue()[name](variant, longest)
