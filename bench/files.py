"""Atomic writes (a temporary file in the same folder, flushed to disk, then renamed into place) and file locks."""

import fcntl
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tasks import InputError

LOCK_POLL_S = 0.05


class NotWritten(InputError):
    """A file could not be written: the disk is full, or the folder may not be written."""


def remove_stale_files(folder: Path, kind: str) -> None:
    """Delete temporary files left by killed processes, in a folder where no other process of this machine writes such files.

    Arguments:
        kind: extension of the files that the temporary ones were to become, such as ``.json``.
    """
    for path in folder.glob(f".*{kind}.{platform.node()}.*.tmp"):
        path.unlink(missing_ok=True)


def try_lock(file: IO[bytes], wait_s: float = 0.0, shared: bool = False) -> bool:
    """Lock an open file with ``flock``, exclusively unless ``shared``; returns whether it succeeded within ``wait_s`` seconds.

    Child processes that inherit the file hold the lock too. It is released when the last of them closes the file or ends.
    (The package ``filelock`` has no shared locks, cannot pass a lock to a child, and falls back to lock files that outlive a
    killed process.)

    Raises:
        OSError: the file system has no locks (ENOSYS, EOPNOTSUPP, ENOLCK) or failed.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOCK_POLL_S)


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write ``data`` to ``path`` in one step: after a crash ``path`` holds either the old content or the new.

    Raises:
        NotWritten: the folder cannot be written or the disk is full; no temporary file remains.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # remove_stale_files recognises its own machine's files by the name.
        prefix = f".{path.name}.{platform.node()}."
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=prefix, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
        entries = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(entries)  # the rename itself must reach the disk too
        finally:
            os.close(entries)
    except OSError as error:
        raise NotWritten(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


@contextmanager
def folder_atomic(path: Path) -> Iterator[Path]:
    """Yield a new folder to fill; it is moved to ``path`` when the block succeeds, and deleted when it fails.

    Raises:
        InputError: ``path`` exists or cannot be written, or the disk is full.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        prefix = f".{path.name}."
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=prefix, suffix=".tmp", ignore_cleanup_errors=True) as scratch:
            new = Path(scratch) / "new"  # one level down, since only its owner may read a temporary directory
            new.mkdir()
            yield new
            new.rename(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error


def render(template: str, folder: Path = Path(__file__).parent, /, **values: object) -> str:
    """The text of a template, by its path in a folder, by default in this package."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # slow to load

    options: dict[str, Any] = {"trim_blocks": True, "keep_trailing_newline": True, "undefined": StrictUndefined}
    return Environment(loader=FileSystemLoader(folder), **options).get_template(template).render(**values)
