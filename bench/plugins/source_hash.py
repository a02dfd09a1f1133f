"""The hash of an encoding's source: the file that defines it and every file it takes names from."""

import hashlib
import inspect
import sys
from functools import cache
from pathlib import Path

from bench import encodings
from bench.encodings import Encoding, Wrapper, attention_kernel, bibliography, compose

from . import registry
from .loading import Source

BUILT_IN = encodings.__name__
HARNESS = (BUILT_IN, Encoding.__module__, *(m.__name__ for m in (attention_kernel, bibliography, compose)))
"""Modules that the hash leaves out: they are part of the harness, and a change of ``PROTOCOL`` covers their changes."""


def source_hash(cls: type[Encoding]) -> str:
    """Return the SHA-256 of the files that define an encoding, of those it takes names from, and of the encoding it wraps.

    These are files of ``bench/encodings`` and, for a plugin, files of its own package or folder. Files of the harness
    (``HARNESS``) are left out. The hash of a plugin that is one file, and uses no built-in encoding, is the hash of that file.
    """
    digest = hashlib.sha256()
    for text in sources(cls):
        digest.update(text)
    if issubclass(cls, Wrapper):
        digest.update(source_hash(cls.inner).encode())
    return digest.hexdigest()


def sources(cls: type[Encoding]) -> list[bytes]:
    """Return the contents of the files that an encoding consists of, built-in files first, each group sorted by path."""
    built_in, plugins = closure(cls)
    from_plugins = sorted({item for source in plugins.values() for item in source.files.items()})
    return [*map(content, sorted(built_in.values())), *(text for _, text in from_plugins)]


def closure(cls: type[Encoding]) -> tuple[dict[str, Path], dict[str, Source]]:
    """Return the modules that an encoding consists of, the encoding it wraps excluded.

    Returns:
        Module → file, of built-in modules; module → source, of plugins.
    """
    pending = [base.__module__ for base in cls.__mro__ if issubclass(base, Encoding)]
    built_in: dict[str, Path] = {}
    plugins: dict[str, Source] = {}
    while pending:
        name = pending.pop()
        if name in built_in or name in plugins or name in HARNESS or registry.is_unloaded(name):
            continue
        if name.startswith(f"{BUILT_IN}."):
            module = sys.modules[name]
            built_in[name] = Path(inspect.getfile(module))
            owners = {getattr(value, "__module__", None) or "" for value in vars(module).values()}
            pending += [owner for owner in owners if owner.startswith(f"{BUILT_IN}.")]
        else:
            source = plugins[name] = registry.source_of(name)
            pending += [other for other in source.outside if other.startswith(f"{BUILT_IN}.") and other in sys.modules]
    return built_in, plugins


@cache
def content(file: Path) -> bytes:
    """Content of a built-in file when first read: a running process keeps using the code that it loaded."""
    return file.read_bytes()
