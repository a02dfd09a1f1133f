"""Positional encodings, one family per file. The hooks and their rules stand in ``base.py``.

A new encoding is one new file here: every ``Encoding`` subclass with an ``info`` of its own is found by its name. A file of
wrappers lists the compositions that deserve a row of their own in ``ENTRIES``; any other can be named on the command line.
Those that live elsewhere are found by ``bench/plugins.py``.
"""

import hashlib
import importlib
import inspect
import os
import pkgutil
import sys
from functools import cache
from pathlib import Path

from tasks import unknown

from ..imports import Source
from . import kernel
from .base import At, Encoding, Info, Setup, Stage, Wrapper, distances
from .compose import resolve, settings

__all__ = [
    "At", "Encoding", "Info", "Setup", "Stage", "Wrapper",
    "catalogue", "distances", "get", "hooks", "settings", "source_hash",
]  # fmt: skip


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
    """One encoding class by its name, such as ``rope``, ``rope(base=500000)``, ``randomised(rope)`` or ``my_encoding.py``.

    Raises:
        InputError: an unknown name or setting, with the nearest match; a plugin that cannot be loaded.
    """
    from .. import plugins

    known = plugins.Known()
    if name not in known and name.isidentifier() and os.path.isfile(f"{name}.py"):
        raise unknown("encoding", name, [f"{name}.py"])
    return resolve(plugins.spelled(name), known)


HOOKS = ("positions", "prepare", "embed", "rotate", "bias", "attend")


def hooks(cls: type[Encoding]) -> list[str]:
    """The hooks an encoding overrides, in the order in which data meets them; a wrapper's and those of what it wraps."""
    plain = Wrapper if issubclass(cls, Wrapper) else Encoding
    inner = hooks(cls.inner) if issubclass(cls, Wrapper) else []
    return [name for name in HOOKS if name in inner or getattr(cls, name) is not getattr(plain, name)]


def source_hash(cls: type[Encoding]) -> str:
    """SHA-256 of the file that defines an encoding, of those it takes something from, and of what it wraps.

    Those are files here and, for a plugin, files of its own package or folder too. ``base.py`` and ``kernel.py`` are left out:
    they belong to the harness, whose ``PROTOCOL`` tells of changes. The hash of a plugin that is one file, and takes from none
    here, is the file's own.
    """
    digest = hashlib.sha256()
    for text in sources(cls):
        digest.update(text)
    if issubclass(cls, Wrapper):
        digest.update(source_hash(cls.inner).encode())
    return digest.hexdigest()


HARNESS = (__name__, Encoding.__module__, kernel.__name__, resolve.__module__)


def sources(cls: type[Encoding]) -> list[bytes]:
    """What stands in the files of an encoding's module, and of those its names come from: those here first, by path."""
    here, elsewhere = closure(cls)
    plugged = sorted({item for source in elsewhere.values() for item in source.files.items()})
    return [*map(content, sorted(here.values())), *(text for _, text in plugged)]


def closure(cls: type[Encoding]) -> tuple[dict[str, Path], dict[str, Source]]:
    """Module → file of those here, and module → files of a plugin's, that an encoding (not what it wraps) is made of."""
    from .. import plugins

    pending = [base.__module__ for base in cls.__mro__ if issubclass(base, Encoding)]
    here: dict[str, Path] = {}
    elsewhere: dict[str, Source] = {}
    while pending:
        name = pending.pop()
        if name in here or name in elsewhere or name in HARNESS or plugins.forgotten(name):
            continue
        if name.startswith(f"{__name__}."):
            loaded = sys.modules[name]
            here[name] = Path(inspect.getfile(loaded))
            owners = {getattr(value, "__module__", None) or "" for value in vars(loaded).values()}
            pending += [owner for owner in owners if owner.startswith(f"{__name__}.")]
        else:
            source = elsewhere[name] = plugins.source_of(name)
            pending += [other for other in source.outside if other.startswith(f"{__name__}.") and other in sys.modules]
    return here, elsewhere


@cache
def content(file: Path) -> bytes:
    """As it was when first asked for: a process goes on with what it has loaded, whatever becomes of the file."""
    return file.read_bytes()
