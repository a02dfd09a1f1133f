"""The hash of the source of an encoding or a task: the file that defines it and every file it takes names from."""

import hashlib
import inspect
import sys
from functools import cache
from pathlib import Path

from bench import encodings
from bench.encodings import Encoding, Wrapper, attention_kernel, bibliography, compose
from tasks import Task, base, errors

from . import registry
from .loading import Source

HARNESS = (encodings.__name__, *(m.__name__ for m in (encodings.base, attention_kernel, bibliography, compose, base, errors)))
"""Modules that the hash leaves out: they are part of the harness, and a change of ``PROTOCOL`` covers their changes."""


def source_hash(cls: type[Encoding] | type[Task]) -> str:
    """Return the SHA-256 of the files that define an encoding or a task, of those it takes names from, and of the encoding it
    wraps.

    These are files of ``bench/encodings`` or ``tasks`` and, for a plugin, its own file or the files of its package. ``HARNESS``
    is left out. The hash of a plugin that is one file, and uses nothing else that is built in, is the hash of that file.
    """
    built_in, plugins = closure(cls)
    from_plugins = sorted({item for source in plugins.values() for item in source.files.items()})
    digest = hashlib.sha256()
    for text in (*map(content, sorted(built_in.values())), *(text for _, text in from_plugins)):
        digest.update(text)
    if issubclass(cls, Wrapper):
        digest.update(source_hash(cls.inner).encode())
    return digest.hexdigest()


def closure(cls: type[Encoding] | type[Task]) -> tuple[dict[str, Path], dict[str, Source]]:
    """Return the modules that an encoding or a task consists of, the encoding it wraps excluded.

    Returns:
        Module → file, of built-in modules; module → source, of plugins.
    """
    root = Task if issubclass(cls, Task) else Encoding
    package = root.__module__.removesuffix("base")  # "bench.encodings." or "tasks."
    pending = [one.__module__ for one in cls.__mro__ if issubclass(one, root)]
    built_in: dict[str, Path] = {}
    plugins: dict[str, Source] = {}
    while pending:
        name = pending.pop()
        if name in built_in or name in plugins or name in HARNESS:
            continue
        if name.startswith(package):
            module = sys.modules[name]
            built_in[name] = Path(inspect.getfile(module))
            owners = {getattr(value, "__module__", None) or "" for value in vars(module).values()}
        else:
            source = plugins[name] = registry.source_of(name)
            owners = source.uses
        pending += [owner for owner in owners if owner.startswith(package)]
    return built_in, plugins


@cache
def content(file: Path) -> bytes:
    """Content of a built-in file when first read: a running process keeps using the code that it loaded."""
    return file.read_bytes()
