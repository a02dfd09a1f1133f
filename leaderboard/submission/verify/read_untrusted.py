"""Read a stranger's folder as data: only the expected files, only up to their size limits, and each only once."""

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from bench.result import Record, first_fault
from leaderboard.submission.manifest import CHECK, CHECK_PAGE, RESULTS, SOURCE, SOURCE_PATH, SUBMISSION
from tasks import InputError

R = TypeVar("R", bound=Record)

MAX_BYTES = {SUBMISSION: 2**18, RESULTS: 2**23, CHECK: 2**18, CHECK_PAGE: 2**18}
"""Size limit of each file; a run of a shipped suite takes some 4 KiB of results."""
MAX_SOURCE_BYTES, MAX_SOURCES = 2**18, 64
"""Bytes of one source file, and number of source files."""
MAX_LINE, MAX_RUNS = 2**16, 500
"""Bytes of one line of results, and number of lines: each is compared with all others of its task."""
MAX_ENTRIES = 200
"""Most files in one folder."""
MAX_DEPTH = 12
"""Nesting of lists and mappings in JSON: twice that of a result."""


@dataclass
class Contents:
    """The files of a folder."""

    files: dict[str, bytes] = field(default_factory=dict)
    """Path → content of the valid files."""
    faults: list[str] = field(default_factory=list)
    """Faults of the other files."""

    @property
    def sources(self) -> dict[str, bytes]:
        """Path below ``source`` → content."""
        return {path.removeprefix(f"{SOURCE}/"): data for path, data in self.files.items() if path.startswith(f"{SOURCE}/")}


def read_folder(folder: Path) -> Contents:
    """All files of a submission. Links are not followed; files that are too large or not expected are not opened."""
    contents = Contents()
    for count, path in enumerate(expected_paths(folder, contents.faults), 1):
        if count > MAX_SOURCES + len(MAX_BYTES):
            contents.faults.append(f"more than {MAX_SOURCES} source files; the others were not read")
            break
        limit = MAX_SOURCE_BYTES if path.startswith(f"{SOURCE}/") else MAX_BYTES[path]
        try:
            contents.files[path] = read_regular(folder / path, limit)
        except (InputError, OSError) as error:
            contents.faults.append(f"{path}: {error.strerror if isinstance(error, OSError) else error}")
    absent = [path for path in MAX_BYTES if path not in contents.files]
    contents.faults += [f"{path} is missing" for path in absent if not any(f.startswith(path) for f in contents.faults)]
    return contents


def expected_paths(folder: Path, faults: list[str]) -> Iterator[str]:
    """Paths of the expected files, those in a folder before those below it; any other file adds a fault."""
    pending = [""]
    for below in pending:
        if len(pending) > MAX_SOURCES:
            faults.append(f"more than {MAX_SOURCES} folders")
            return
        try:
            with os.scandir(folder / below) as entries:
                listed = sorted(islice(entries, MAX_ENTRIES + 1), key=lambda entry: entry.name)
        except OSError as error:
            faults.append(f"{below or 'the folder'}: {error.strerror or error}")
            continue
        if len(listed) > MAX_ENTRIES:
            faults.append(f"{below or 'the folder'} has more than {MAX_ENTRIES} entries")
            continue
        for entry in listed:
            path = f"{below}{entry.name}"
            if entry.is_symlink():
                faults.append(f"{path} is a link")
            elif entry.is_dir(follow_symlinks=False):
                if path == SOURCE or is_source(f"{path}/some.py"):
                    pending.append(f"{path}/")
                else:
                    faults.append(f"{path}/ is not expected")
            elif path in MAX_BYTES or is_source(path):
                yield path
            else:
                faults.append(f"{path} is not expected")


def is_source(path: str) -> bool:
    return path.startswith(f"{SOURCE}/") and bool(re.fullmatch(SOURCE_PATH, path.removeprefix(f"{SOURCE}/")))


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a regular file.

    Raises:
        InputError: it is not a regular file, or has more than ``limit`` bytes; then it is not read.
        OSError: it cannot be opened.
    """
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise InputError("not a regular file")
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # it may have been replaced
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(handle).st_size
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise InputError("not a regular file")
        if size > limit:
            raise InputError(f"{size:,} bytes, more than {limit:,}, and not read")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InputError(f"more than {limit:,} bytes")
    return data


def parse_record(data: bytes, model: type[R]) -> R:
    """Parse strict JSON as a ``model``.

    Raises:
        InputError: it is not strict JSON, or does not fit the model.
    """
    strict_json(data)
    try:
        return model.model_validate_json(data, strict=True)
    except ValidationError as error:
        raise InputError(first_fault(error)) from None


def strict_json(data: bytes) -> Any:
    """Parse JSON in UTF-8 without duplicate keys or NaN, nested at most ``MAX_DEPTH`` deep.

    Raises:
        InputError: it is anything else.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("not JSON (not UTF-8 text)") from None
    level = 0
    # Possessive quantifiers: backtracking would take a hundred times the text's memory.
    for character in re.sub(r'"(?:[^"\\]++|\\.)*+"?', "", text, flags=re.DOTALL):  # outside strings
        level += (character in "[{") - (character in "]}")
        if level > MAX_DEPTH:
            raise InputError(f"nested more than {MAX_DEPTH} deep")
    try:
        return json.loads(text, object_pairs_hook=unique_keys, parse_constant=reject_constant)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})") from None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise InputError(f"duplicate key {key!r:.60}")
        mapping[key] = value
    return mapping


def reject_constant(text: str) -> Any:
    raise InputError(f"{text} is not a number")
