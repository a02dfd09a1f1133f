"""Task generators: copying, addition, parity, key retrieval, sorting, text and further ones, one per file.

Independent of the other packages.

To add a task, add a file here: every ``Task`` subclass with its own ``name`` is registered under that name.
"""

import hashlib
import importlib
import inspect
import pkgutil
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from .base import BOS, EOS, PAD, SEP, Examples, Ragged, Task, Vocabulary
from .errors import InputError, plural, printable, unknown
from .splits import content_hash, train_batch

__all__ = [
    "BOS", "EOS", "PAD", "SEP", "Examples", "InputError", "Ragged", "Task", "Vocabulary",
    "added", "catalogue", "content_hash", "defined_in", "example", "find", "get", "plural", "printable", "source_sha256",
    "title", "train_batch", "unknown",
]  # fmt: skip


added: dict[str, type[Task]] = {}
"""Name → class of every task that is not built in and that this process has loaded; ``bench.plugins`` adds them."""


@cache
def catalogue() -> dict[str, type[Task]]:
    """Name → class of every task in this package, sorted by name."""
    modules = [importlib.import_module(f"{__name__}.{entry.name}") for entry in pkgutil.iter_modules(__path__)]
    found = [cls for module in modules for cls in defined_in(module, Task) if "name" in vars(cls)]
    return {cls.name: cls for cls in sorted(found, key=lambda cls: cls.name)}


def defined_in(module: ModuleType, base: type) -> list[Any]:
    """The subclasses of ``base`` that a module defines."""
    own = [value for value in vars(module).values() if inspect.isclass(value) and value.__module__ == module.__name__]
    return [cls for cls in own if issubclass(cls, base)]


@cache
def source_sha256(cls: type[Task]) -> str:
    """Hash of the source of a task's module."""
    return hashlib.sha256(inspect.getsource(inspect.getmodule(cls) or cls).encode()).hexdigest()


def title(name: str) -> str:
    """Title of a task, ``Key retrieval`` of ``key_retrieval``; an unknown name as it is."""
    known = (added | catalogue()).get(name)
    return known.title if known else name


def find(name: str) -> type[Task]:
    """The class of a task that is built in or loaded.

    Raises:
        InputError: there is none, with the nearest match.
    """
    known = catalogue() | added
    if name not in known:
        raise unknown("task", name, known)
    return known[name]


def get(name: str, variant: str | None = None, longest: int = 50, **settings: Any) -> Task:
    """Create a task.

    Raises:
        InputError: an unknown name, variant or setting, with the nearest match.
    """
    return find(name)(variant, longest, **settings)


def example(name: str, variant: str, length: int = 4, **settings: Any) -> str:
    """A literal example, or an empty text if there is none without further settings."""
    try:
        made = get(name, variant, longest=2 * length, **settings)
        drawn = made.sample(length, 1, np.random.default_rng(0))
        return made.vocabulary.decode(drawn.tokens[0, : drawn.sizes[0]].tolist())
    except (InputError, ValueError, FileNotFoundError):
        return ""
