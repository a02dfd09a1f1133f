"""Files of the published store: lines of records, and atomic writes."""

from collections.abc import Iterator
from pathlib import Path

from bench.files import write_atomic
from tasks import InputError

from .file_names import SUFFIX

RESULTS = "results"
"""Folder of the store, below the folder of the published board."""


def stored_lines(place: Path) -> Iterator[tuple[str, bytes, str]]:
    """The lines of all files of encodings in a folder: where the line is, its text, and the name of its file."""
    for path in sorted(place.glob(f"*{SUFFIX}")):
        if not path.name.startswith("."):  # a temporary file of a killed process
            for number, line in enumerate(read_file(path).removesuffix(b"\n").split(b"\n"), 1):
                yield f"{path}, line {number}", line, path.name


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
