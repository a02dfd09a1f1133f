"""A stranger's folder, read as data: only what is expected, only as much as is allowed, and no more than once."""

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

from bench.results import Record, first_fault
from tasks import InputError

from ..submission import CHECK, CHECK_PAGE, RESULTS, SOURCE, SOURCE_PATH, SUBMISSION

R = TypeVar("R", bound=Record)

MOST = {SUBMISSION: 2**18, RESULTS: 2**23, CHECK: 2**18, CHECK_PAGE: 2**18}
"""Bytes of each file; a run of a shipped suite takes some 4 KiB of results."""
MOST_SOURCE, MOST_SOURCES = 2**18, 64
"""Bytes of one source file, and how many there may be."""
MOST_LINE, MOST_RUNS = 2**16, 500
"""Bytes of one line of results, and how many lines: each is compared with all others of its task."""
MOST_ENTRIES = 200
"""In one folder, before reading it is given up."""
DEPTH = 12
"""Of lists and mappings in JSON: twice what a result has."""


@dataclass
class Contents:
    """What was found in a folder."""

    files: dict[str, bytes] = field(default_factory=dict)
    """Path → content, of everything that was as expected."""
    faults: list[str] = field(default_factory=list)
    """What was not."""

    @property
    def sources(self) -> dict[str, bytes]:
        """Path below ``source`` → content."""
        return {path.removeprefix(f"{SOURCE}/"): data for path, data in self.files.items() if path.startswith(f"{SOURCE}/")}


def read_folder(folder: Path) -> Contents:
    """All files of a submission. Links are not followed, and what is too large, or not expected, is not opened."""
    found = Contents()
    for path in walk(folder, "", found.faults):
        most = MOST_SOURCE if path.startswith(f"{SOURCE}/") else MOST[path]
        try:
            found.files[path] = read_regular(folder / path, most)
        except (InputError, OSError) as error:
            found.faults.append(f"{path}: {error.strerror if isinstance(error, OSError) else error}")
    if len(found.sources) > MOST_SOURCES:
        found.faults.append(f"{len(found.sources)} source files, more than {MOST_SOURCES}")
    missing = [path for path in MOST if path not in found.files and not any(f.startswith(path) for f in found.faults)]
    found.faults += [f"{path} is missing" for path in missing]
    return found


def walk(folder: Path, below: str, faults: list[str]) -> Iterator[str]:
    """The paths that are expected, by name; whatever else there is becomes a fault."""
    try:
        with os.scandir(folder / below) as entries:
            listed = sorted(islice(entries, MOST_ENTRIES + 1), key=lambda entry: entry.name)
    except OSError as error:
        faults.append(f"{below or 'the folder'}: {error.strerror or error}")
        return
    if len(listed) > MOST_ENTRIES:
        faults.append(f"{below or 'the folder'} has more than {MOST_ENTRIES} entries")
        return
    for entry in listed:
        path = f"{below}{entry.name}"
        if entry.is_symlink():
            faults.append(f"{path} is a link")
        elif entry.is_dir(follow_symlinks=False):
            if path == SOURCE or is_source(f"{path}/some.py"):
                yield from walk(folder, f"{path}/", faults)
            else:
                faults.append(f"{path}/ was not expected")
        elif path in MOST or is_source(path):
            yield path
        else:
            faults.append(f"{path} was not expected")


def is_source(path: str) -> bool:
    return path.startswith(f"{SOURCE}/") and bool(re.fullmatch(SOURCE_PATH, path.removeprefix(f"{SOURCE}/")))


def read_regular(path: Path, most: int) -> bytes:
    """A plain file of at most ``most`` bytes.

    Raises:
        InputError: something else; it was not read then.
        OSError: it cannot be opened.
    """
    if not stat.S_ISREG(os.lstat(path).st_mode):
        raise InputError("not a plain file")
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # should it have become something else
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(handle).st_size
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise InputError("not a plain file")
        if size > most:
            raise InputError(f"{size:,} bytes, more than {most:,}, and not read")
        data = file.read(most + 1)
    if len(data) > most:
        raise InputError(f"more than {most:,} bytes")
    return data


def record(data: bytes, model: type[R]) -> R:
    """Strict JSON as a ``model``.

    Raises:
        InputError: what else it is.
    """
    strict_json(data)
    try:
        return model.model_validate_json(data, strict=True)
    except ValidationError as error:
        raise InputError(first_fault(error)) from None


def strict_json(data: bytes) -> Any:
    """JSON that says one thing: UTF-8, no key twice, no NaN, nested at most ``DEPTH`` deep.

    Raises:
        InputError: anything else, pickles and YAML among it.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError("not UTF-8 text, so no JSON") from None
    level = 0
    for character in bare(text):
        level += (character in "[{") - (character in "]}")
        if level > DEPTH:
            raise InputError(f"nested more than {DEPTH} deep")
    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=no_number)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON ({error})") from None


def bare(text: str) -> Iterator[str]:
    """The characters of a JSON text that stand outside of strings."""
    inside = escaped = False
    for character in text:
        if inside:
            inside, escaped = escaped or character != '"', character == "\\" and not escaped
        elif character == '"':
            inside = True
        else:
            yield character


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InputError(f"the key {key!r:.60} stands twice")
        found[key] = value
    return found


def no_number(text: str) -> Any:
    raise InputError(f"{text} is no number")
