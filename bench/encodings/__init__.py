"""Positional encodings, one family per file. The hooks and their rules stand in ``base.py``.

A new encoding is one new file here: every ``Encoding`` subclass with an ``info`` of its own is found by its name.
"""

import hashlib
import importlib
import inspect
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any

from tasks import unknown

from .base import At, Encoding, Info, Setup

__all__ = ["At", "Encoding", "Info", "Setup", "catalogue", "get", "hooks", "settings", "source_hash"]


@cache
def catalogue() -> dict[str, type[Encoding]]:
    """Name → encoding class, for every encoding in this package, by name."""
    found: dict[str, type[Encoding]] = {}
    for entry in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{entry.name}")
        for cls in vars(module).values():
            mine = inspect.isclass(cls) and issubclass(cls, Encoding) and cls.__module__ == module.__name__
            if mine and "info" in vars(cls):
                if cls.info.name in found:
                    raise TypeError(f"two encodings are named {cls.info.name!r}: {found[cls.info.name]} and {cls}")
                found[cls.info.name] = cls
    return dict(sorted(found.items()))


def get(name: str) -> type[Encoding]:
    """One encoding class.

    Raises:
        InputError: an unknown name, with the nearest match.
    """
    if name not in catalogue():
        raise unknown("encoding", name, catalogue())
    return catalogue()[name]


HOOKS = ("positions", "prepare", "embed", "rotate", "bias", "attend")


def hooks(cls: type[Encoding]) -> list[str]:
    """The hooks an encoding overrides, in the order in which data meets them."""
    return [name for name in HOOKS if getattr(cls, name) is not getattr(Encoding, name)]


def settings(cls: type[Encoding]) -> dict[str, Any]:
    """The keyword settings of an encoding and their defaults."""
    parameters = inspect.signature(cls.__init__).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}


def source_hash(cls: type[Encoding]) -> str:
    """SHA-256 of the file that defines an encoding."""
    return hashlib.sha256(Path(inspect.getfile(cls)).read_bytes()).hexdigest()
