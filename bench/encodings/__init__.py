"""Positional encodings, one family per file. The hooks and their rules stand in ``base.py``.

A new encoding is one new file here: every ``Encoding`` subclass with an ``info`` of its own is found by its name. A file of
wrappers lists the compositions that deserve a row of their own in ``ENTRIES``; any other can be named on the command line.
"""

import hashlib
import importlib
import inspect
import pkgutil
import sys
from functools import cache
from pathlib import Path

from . import kernel
from .base import At, Encoding, Info, Setup, Stage, Wrapper
from .compose import resolve, settings

__all__ = ["At", "Encoding", "Info", "Setup", "Stage", "Wrapper", "catalogue", "get", "hooks", "settings", "source_hash"]


@cache
def classes() -> dict[str, type[Encoding]]:
    """Name → class of everything this package defines, wrappers included, by name."""
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


@cache
def catalogue() -> dict[str, type[Encoding]]:
    """Name → class of every encoding with a row of its own: the plain ones, and the compositions of ``ENTRIES``, by name."""
    plain = {name: cls for name, cls in classes().items() if not issubclass(cls, Wrapper)}
    modules = {inspect.getmodule(cls) for cls in classes().values()}
    composed = [get(text) for module in modules for text in getattr(module, "ENTRIES", ())]
    return dict(sorted((plain | {cls.info.name: cls for cls in composed}).items()))


def get(name: str) -> type[Encoding]:
    """One encoding class by its name, such as ``rope``, ``rope(base=500000)`` or ``randomised(rope)``.

    Raises:
        InputError: an unknown name or setting, with the nearest match.
    """
    return resolve(name, classes())


HOOKS = ("positions", "prepare", "embed", "rotate", "bias", "attend")


def hooks(cls: type[Encoding]) -> list[str]:
    """The hooks an encoding overrides, in the order in which data meets them; a wrapper's and those of what it wraps."""
    plain = Wrapper if issubclass(cls, Wrapper) else Encoding
    inner = hooks(cls.inner) if issubclass(cls, Wrapper) else []
    return [name for name in HOOKS if name in inner or getattr(cls, name) is not getattr(plain, name)]


def source_hash(cls: type[Encoding]) -> str:
    """SHA-256 of the file that defines an encoding, of those here that it takes something from, and of what it wraps.

    ``base.py`` and ``kernel.py`` are left out: they belong to the harness, whose ``PROTOCOL`` tells of changes.
    """
    digest = hashlib.sha256()
    for path in sorted(sources(cls.__module__)):
        digest.update(path.read_bytes())
    if issubclass(cls, Wrapper):
        digest.update(source_hash(cls.inner).encode())
    return digest.hexdigest()


def sources(module: str) -> set[Path]:
    """Files of a module and, within this package, of the modules its names come from."""
    pending, files = [module], {}
    while pending:
        name = pending.pop()
        if name in files or name in (Encoding.__module__, kernel.__name__):
            continue
        loaded = sys.modules[name]
        files[name] = Path(inspect.getfile(loaded))
        owners = {getattr(value, "__module__", None) or "" for value in vars(loaded).values()}
        pending += [owner for owner in owners if owner.startswith(f"{__name__}.")]
    return set(files.values())
