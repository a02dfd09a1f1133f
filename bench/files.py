"""Files that are either whole or not there: written beside their place, flushed to the disk, then renamed into it."""

import os
import tempfile
from pathlib import Path

from tasks import InputError


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write ``data`` to ``path``; after a crash at any moment ``path`` holds the old content or the new one, never a part.

    Raises:
        InputError: the folder cannot be written or the disk is full; nothing is left behind.
    """
    path = Path(path)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the rename itself must reach the disk too
        finally:
            os.close(folder)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
