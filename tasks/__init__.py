"""Task generators: copying, addition, parity, key retrieval, sorting, majority and language, one per file.

Independent of the other packages.

To add a task, add a file here: every ``Task`` subclass with its own ``name`` is registered under that name.
"""

import hashlib
import importlib
import inspect
import pkgutil
from functools import cache
from typing import Any

from .base import BOS, EOS, PAD, SEP, Examples, Task, Vocabulary
from .errors import InputError, plural, printable, unknown
from .splits import content_hash, test_set, train_batch

__all__ = [
    "BOS", "EOS", "PAD", "SEP", "Examples", "InputError", "Task", "Vocabulary",
    "catalogue", "content_hash", "get", "plural", "printable", "source_sha256", "test_set", "title", "train_batch", "unknown",
]  # fmt: skip


@cache
def catalogue() -> dict[str, type[Task]]:
    """Name → class of every task in this package, sorted by name."""
    by_name: dict[str, type[Task]] = {}
    for entry in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{entry.name}")
        for cls in vars(module).values():
            defined_here = inspect.isclass(cls) and issubclass(cls, Task) and cls.__module__ == module.__name__
            if defined_here and "name" in vars(cls):
                if cls.name in by_name:
                    raise TypeError(f"two tasks are named {cls.name!r}: {by_name[cls.name]} and {cls}")
                by_name[cls.name] = cls
    return dict(sorted(by_name.items()))


@cache
def source_sha256(cls: type[Task]) -> str:
    """Hash of the source of a task's module."""
    return hashlib.sha256(inspect.getsource(inspect.getmodule(cls) or cls).encode()).hexdigest()


def title(name: str) -> str:
    """Title of a task, ``Key retrieval`` of ``key_retrieval``; an unknown name as it is."""
    known = catalogue().get(name)
    return known.title if known else name


def get(name: str, variant: str | None = None, longest: int = 50, **settings: Any) -> Task:
    """Create a task.

    Raises:
        InputError: an unknown name, variant or setting, with the nearest match.
    """
    if name not in catalogue():
        raise unknown("task", name, catalogue())
    return catalogue()[name](variant, longest, **settings)
