"""Files that are either whole or not there: written beside their place, flushed to the disk, then renamed into it."""

import os
import platform
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks import InputError

DEBRIS_S = 86400.0
"""What was half-written on another machine, and not finished in this time, never will be."""


def scratch_prefix(path: Path) -> str:
    """How the name of a file begins that will be ``path``: it says on which machine it is being written."""
    return f".{path.name}.{platform.node()}."


def clear_debris(folder: Path) -> None:
    """Remove what processes of this machine, since killed, were writing in a folder that no other process of it works in.

    What another machine is writing stays: some shared file systems have no locks, and both may work there.
    """
    for debris in folder.glob(".*.tmp"):
        try:
            if f".{platform.node()}." in debris.name or time.time() - debris.stat().st_mtime > DEBRIS_S:
                debris.unlink()
        except FileNotFoundError:
            pass


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write ``data`` to ``path``; after a crash at any moment ``path`` holds the old content or the new one, never a part.

    Raises:
        InputError: the folder cannot be written or the disk is full; nothing is left behind.
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=scratch_prefix(path), suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
        flush(path.parent)  # the rename itself must reach the disk too
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def folder_atomic(path: Path, replace: bool = False) -> Iterator[Path]:
    """A new folder to fill, which takes its place at ``path`` when the block ends well; if it does not, nothing is left of it.

    Arguments:
        replace: whether a folder with something in it may stand there already; it goes when the new one is whole.

    Raises:
        InputError: the place cannot be written or is taken, or the disk is full; what was there is there still.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{path.name}."
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=prefix, suffix=".tmp", ignore_cleanup_errors=True) as scratch:
            # One level down, since a temporary directory itself is readable by its owner alone.
            new, old = Path(scratch) / "new", Path(scratch) / "old"
            new.mkdir()
            yield new
            for file in new.rglob("*"):
                flush(file)
            if replace and path.exists():
                path.rename(old)
            try:
                new.rename(path)
            except OSError:
                if old.exists():
                    old.rename(path)
                raise
            flush(path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
