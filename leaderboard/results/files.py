"""Files of the published store: reading, and atomic writes."""

from pathlib import Path

from bench.files import write_atomic
from tasks import InputError

RESULTS = "results"
"""Folder of the store, below the folder of the published board."""


def read_file(path: Path) -> bytes:
    """The bytes of a file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def write_if_changed(path: Path, content: bytes | str | None) -> bool:
    """Write a file unless it already has that content; None deletes it. Returns whether anything changed.

    Raises:
        InputError: it cannot be written.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        if data is None:
            existed = path.exists()
            path.unlink(missing_ok=True)
            return existed
        if path.is_file() and path.read_bytes() == data:
            return False
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    write_atomic(path, data)
    return True
