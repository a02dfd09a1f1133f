"""Task generators: copying, addition, parity, key retrieval, sorting, one per file. This package knows nothing of the harness.

A new task is one new file here: every ``Task`` subclass of this package that has a ``name`` of its own is found by it.
"""

import importlib
import inspect
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
    found: dict[str, type[Task]] = {}
    for entry in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{entry.name}")
        for cls in vars(module).values():
            mine = inspect.isclass(cls) and issubclass(cls, Task) and cls.__module__ == module.__name__
            if mine and "name" in vars(cls):
                if cls.name in found:
                    raise TypeError(f"two tasks are named {cls.name!r}: {found[cls.name]} and {cls}")
                found[cls.name] = cls
    return dict(sorted(found.items()))


def get(name: str, variant: str | None = None, longest: int = 50) -> Task:
    """One task, ready to sample.

    Raises:
        InputError: an unknown name or variant, with the nearest match.
    """
    if name not in catalogue():
        raise unknown("task", name, catalogue())
    return catalogue()[name](variant, longest)
