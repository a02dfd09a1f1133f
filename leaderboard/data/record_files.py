"""Files of records: one per line, or a JSON object with one per name; what is broken is reported all at once."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from bench.files import write_atomic
from bench.result import Record, reading
from tasks import InputError

from .file_names import SUFFIX

MOST_SHOWN = 3
"""Maximum number of broken files or lines that a message names after the first."""

T = TypeVar("T")
R = TypeVar("R", bound=Record)


def read_each(items: Iterable[tuple[Any, ...]], read: Callable[..., T]) -> list[T]:
    """What ``read`` returns for each item.

    Arguments:
        items: arguments of ``read``, of which the first is a place: a file, or a line of one.

    Raises:
        InputError: the first one's, followed by the places of the others that are broken too.
    """
    found, faults = list[T](), list[tuple[Any, InputError]]()
    for item in items:
        try:
            found.append(read(*item))
        except InputError as error:
            faults.append((item[0], error))
    if faults:
        (_, first), *others = faults
        if not others:
            raise first
        more = f" and {len(others) - MOST_SHOWN} more" if len(others) > MOST_SHOWN else ""
        places = ", ".join(str(place) for place, _ in others[:MOST_SHOWN])
        raise InputError(f"{first}; also broken: {places}{more}") from first
    return found


def stored_lines(place: Path) -> Iterator[tuple[str, bytes, str]]:
    """The lines of all files of encodings in a folder: where the line is, its text, and the name of its file."""
    for path in sorted(place.glob(f"*{SUFFIX}")):
        if not path.name.startswith("."):  # a temporary file of a killed process
            for number, line in enumerate(read_file(path).removesuffix(b"\n").split(b"\n"), 1):
                yield f"{path}, line {number}", line, path.name


def read_by_name(path: Path, kind: type[R], fault: str, advice: str) -> dict[str, R]:
    """Name → record; empty without the file. Arguments as for ``reading``."""
    if not path.exists():
        return {}
    with reading(path, fault, advice):
        return dict(sorted(TypeAdapter(dict[str, kind]).validate_json(path.read_bytes()).items()))  # type: ignore[valid-type]


def write_by_name(path: Path, records: Mapping[str, Record]) -> None:
    """A JSON object with one record per line, sorted by name; without any, the file is deleted."""
    rows = [f"{json.dumps(name, ensure_ascii=False)}: {records[name].model_dump_json()}" for name in sorted(records)]
    write_if_changed(path, "{\n" + ",\n".join(rows) + "\n}\n" if rows else None)


def read_file(path: Path) -> bytes:
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
