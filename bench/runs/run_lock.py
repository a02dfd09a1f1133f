"""The lock files of a run's folder: one process at a time works on a run, and one at a time on its training.

There are two, because a run of another encoding that shares the training may do it: see ``shared_training``.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from bench.files import NotWritten, remove_stale_files, try_lock
from tasks import InputError

LOCK, TRAINING_LOCK = "lock", "training.lock"
WRITES = {LOCK: ".json", TRAINING_LOCK: ".safetensors"}
"""Files that the holder of each lock writes, by extension."""
LOCK_WAIT_S = 0.35
"""Longer than a status command holds the lock while probing it, much shorter than a run."""
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
"""Errors of file systems without locks. Two processes may then work on one run; both write the same result."""


class LockedElsewhere(Exception):
    """Another process works on the run."""


@contextmanager
def lock_run(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Lock a run's folder; the lock is released when the block or the process ends, however it ends.

    Arguments:
        name: ``LOCK`` or ``TRAINING_LOCK``.

    Raises:
        LockedElsewhere: another process holds it.
        NotWritten: the folder cannot be written.
    """
    path = folder / name
    file = open_locked(path)
    while not is_at(path, file):  # its last holder deleted it while we waited: others lock a new file
        file.close()
        file = open_locked(path)
    with file:
        remove_stale_files(folder, WRITES[name])
        yield
        path.unlink(missing_ok=True)


def open_locked(path: Path) -> IO[bytes]:
    """Open a lock file and lock it, for ``lock_run``."""
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab")  # noqa: SIM115 (closed by the caller)
    except OSError as error:
        raise NotWritten(f"cannot write {folder}: {error.strerror or error}") from error
    try:
        if try_lock(file, LOCK_WAIT_S):
            return file
    except OSError as error:
        if error.errno in NO_LOCKS:
            return file
        file.close()
        raise InputError(f"cannot lock {folder}: {error.strerror or error}") from error
    file.close()
    raise LockedElsewhere(str(folder))


def is_at(path: Path, file: IO[bytes]) -> bool:
    """Whether an open file is the one at this path."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:  # no such file, or a stale handle of a network file system
        return False


@contextmanager
def lock_training(folder: Path, while_waiting: Callable[[], None]) -> Iterator[None]:
    """Lock the training of a run's folder, as soon as no other process trains there.

    Arguments:
        while_waiting: called about three times a second; may raise to stop waiting.
    """
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lock_run(folder, TRAINING_LOCK))
                break
            except LockedElsewhere:
                while_waiting()
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process works on this run; False on file systems without locks."""
    try:
        with open(folder / LOCK, "rb") as file:
            return not try_lock(file, shared=True)
    except OSError:
        return False
