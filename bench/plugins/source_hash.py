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

HARNESS = (encodings.__name__, *(m.__name__ for m in (encodings.base, attention_kernel, bibliography, compose, base, errors)))
"""Modules that the hash leaves out: they are part of the harness, and a change of ``PROTOCOL`` covers their changes."""


def source_hash(cls: type[Encoding] | type[Task]) -> str:
    """Return the SHA-256 of the files that define an encoding or a task, of those it takes names from, and of the encoding it
    wraps.

    These are files of ``bench/encodings`` or ``tasks`` and, for a plugin, its own file or the files of its package. ``HARNESS``
    is left out. The hash of a plugin that is one file, and uses nothing else that is built in, is the hash of that file.
    """
    digest = hashlib.sha256()
    for text in contents(cls):
        digest.update(text)
    if issubclass(cls, Wrapper):
        digest.update(source_hash(cls.inner).encode())
    return digest.hexdigest()


def contents(cls: type[Encoding] | type[Task]) -> list[bytes]:
    """Return the contents of the files that an encoding or a task consists of, the encoding it wraps excluded.

    Built-in files come first, then those of plugins, each by path; files of plugins with equal path and content count once.
    """
    root = Task if issubclass(cls, Task) else Encoding
    package = root.__module__.removesuffix("base")  # "bench.encodings." or "tasks."
    pending, known = [one.__module__ for one in cls.__mro__ if issubclass(one, root)], {*HARNESS}
    built_in: set[tuple[str, bytes]] = set()
    plugins: set[tuple[str, bytes]] = set()
    while pending:
        name = pending.pop()
        if name in known:
            continue
        known.add(name)
        if name.startswith(package):
            file = inspect.getfile(sys.modules[name])
            built_in.add((file, content(file)))
        else:
            plugins |= registry.source_of(name).items()
        values = vars(sys.modules[name]).values()  # the modules that define them, and those among them
        used = {str(getattr(value, "__module__", None) or getattr(value, "__name__", "")) for value in values}
        pending += [other for other in used if other.startswith(package)]
    return [text for files in (built_in, plugins) for _, text in sorted(files)]


@cache
def content(file: str) -> bytes:
    """Content of a built-in file when first read: a running process keeps using the code that it loaded."""
    return Path(file).read_bytes()
