"""A submission: the source of an encoding, its description, and the suite that it asks to run on.

::

    <folder>/submissions/<name>/
        submission.json      who and what
        source/…             all files that the source hash of the encoding covers
        results.csv          optional: the author's own results, which are shown and never used

A submission is read as data: links are not followed, and files that are too large or not expected are not opened.
"""

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from bench.encodings import classes
from bench.plugins.references import encoding_chain
from bench.result import EncodingRecord, Record, first_fault
from bench.text_rules import NAME, link_fault, pattern_fault, plain_text_fault, settings_fault
from leaderboard.results.file_names import page_name
from tasks import InputError

SUBMISSION, SOURCE, RESULTS = "submission.json", "source", "results.csv"
LIMITS = {SUBMISSION: 2**18, RESULTS: 2**20}
"""Most bytes of each file."""
MAX_SOURCE_BYTES, MAX_SOURCES, MAX_ENTRIES = 2**18, 64, 200
MAX_NOTE = 1000
PLUGIN = r"[a-z][a-z0-9_]{0,63}"
PART = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
SOURCE_PATH = rf"({PART}/){{0,4}}{PART}\.py"
LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{1,63}")
Text = Annotated[str, Field(max_length=2000)]


class Submission(Record):
    """The content of ``submission.json``."""

    format: Literal[2] = 2
    authors: Annotated[list[Text], Field(min_length=1, max_length=100)]
    licence: Text
    """SPDX identifier of the source's licence."""
    note: Text = ""
    suite: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
    encoding: EncodingRecord
    """The description as results have it. Its name may add settings or a built-in wrapper: ``randomised(my_encoding)``."""
    plugin: Annotated[str, Field(pattern=rf"^{PLUGIN}$")]
    """Name of the submitted class."""
    file: Annotated[str, Field(pattern=rf"^{SOURCE_PATH}$")]
    """Its file, below ``source``."""
    cls: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


@dataclass(frozen=True)
class SubmissionFolder:
    """A submission as read from its folder."""

    place: Path
    submission: Submission
    sources: dict[str, bytes]
    """Path below ``source`` → content."""

    @property
    def reference(self) -> str:
        """The encoding, as for ``lprime run --encoding``."""
        folder, one = (self.place / SOURCE).resolve(), self.submission
        if "/" in one.file:
            plugin = f"{one.file.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}:{one.cls}"
        else:
            plugin = f"{folder / one.file}:{one.cls}"
            plugin = plugin if re.fullmatch(r"[^\s(),='\"]+", plugin) or one.encoding.name == one.plugin else f"'{plugin}'"
        return re.sub(rf"(?<!['\w]){one.plugin}(?!['\w=])", lambda _: plugin, one.encoding.name)

    @property
    def record(self) -> EncodingRecord:
        """The description, with a hash of the source in this folder in place of the author's."""
        digest = hashlib.sha256()
        for path in sorted(self.sources):
            digest.update(f"{path}\0{len(self.sources[path])}\0".encode() + self.sources[path])
        return self.submission.encoding.model_copy(update={"source_sha256": digest.hexdigest()})

    @property
    def path(self) -> list[str]:
        """Folders to search for its modules."""
        return [str((self.place / SOURCE).resolve())] if "/" in self.submission.file else []


def is_submission(place: str) -> bool:
    return os.path.isfile(os.path.join(place, SUBMISSION))


def read_submission(place: Path) -> SubmissionFolder:
    """Read a submission, without running any of it.

    Raises:
        InputError: a file that is missing, not expected, too large or malformed; a name or text that the rules do not allow.
    """
    files = {path: read_regular(place, path, limit) for path, limit in expected_files(place)}
    if SUBMISSION not in files:
        raise InputError(f"{place} has no {SUBMISSION}; expected a folder written by `lprime submit`")
    try:
        submission = Submission.model_validate(strict_json(files[SUBMISSION]))
    except (ValidationError, ValueError, RecursionError) as error:
        fault = first_fault(error) if isinstance(error, ValidationError) else str(error)
        raise InputError(f"{place / SUBMISSION} is not a submission ({fault}); write it again with `lprime submit`") from None
    sources = {path.removeprefix(f"{SOURCE}/"): data for path, data in files.items() if path.startswith(f"{SOURCE}/")}
    if faults := [f"{field} {fault}" for field, fault in text_faults(submission, place.name) if fault]:
        raise InputError(f"{place}: {'; '.join(faults[:4])}")
    if submission.file not in sources:
        raise InputError(f"{place}: {submission.file} should contain the encoding, but is not among its source files")
    return SubmissionFolder(place, submission, sources)


def expected_files(place: Path) -> Iterator[tuple[str, int]]:
    """Path and limit of each file, which is a regular file with an expected name."""
    pending, sources = [""], 0
    for below in pending:
        try:
            listed = sorted(os.scandir(place / below), key=lambda entry: entry.name)[: MAX_ENTRIES + 1]
        except OSError as error:
            raise InputError(f"cannot read {place / below}: {error.strerror or error}") from error
        for entry in listed:
            path = f"{below}{entry.name}"
            source = re.fullmatch(rf"{SOURCE}/{SOURCE_PATH}", path)
            if entry.is_dir(follow_symlinks=False) and (path == SOURCE or re.fullmatch(rf"{SOURCE}(/{PART}){{0,4}}", path)):
                pending.append(f"{path}/")
            elif entry.is_file(follow_symlinks=False) and (path in LIMITS or source):
                sources += bool(source)
                yield path, LIMITS.get(path, MAX_SOURCE_BYTES)
            else:
                raise InputError(f"{place}: {path!r:.120} is not expected in a submission, or is a link")
        if len(listed) > MAX_ENTRIES or len(pending) > MAX_SOURCES or sources > MAX_SOURCES:
            raise InputError(f"{place} has more than {MAX_SOURCES} source files")


def read_regular(place: Path, path: str, limit: int) -> bytes:
    """The content of a regular file of at most ``limit`` bytes."""
    try:
        handle = os.open(place / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):  # it may have been replaced
                raise InputError(f"{place / path} is not a regular file")
            data = file.read(limit + 1)
    except OSError as error:
        raise InputError(f"cannot read {place / path}: {error.strerror or error}") from error
    if len(data) > limit:
        raise InputError(f"{place / path} has more than {limit:,} bytes")
    return data


def strict_json(data: bytes) -> Any:
    """Parse JSON without duplicate keys or NaN.

    Raises:
        ValueError: it is anything else.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key occurs twice")
        return dict(pairs)

    def refuse(text: str) -> Any:
        raise ValueError(f"{text} is not a number")

    return json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse)


def text_faults(submission: Submission, folder: str) -> Iterator[tuple[str, str | None]]:
    """Each text, with its fault or None."""
    info = submission.encoding
    yield "the name", name_fault(info.name, submission.plugin, folder)
    yield "title", plain_text_fault(info.title)
    for author in submission.authors:
        yield "author", plain_text_fault(author)
    yield "note", plain_text_fault(submission.note, MAX_NOTE) if submission.note else None
    yield "link", link_fault(info.link)
    yield "licence", pattern_fault(LICENCE, "an SPDX identifier", submission.licence)
    yield "family", plain_text_fault(info.family)
    yield "lengths", plain_text_fault(info.lengths, allowed="/") if info.lengths else None
    yield "settings", settings_fault(info.settings)


def name_fault(name: str, plugin: str, folder: str) -> str | None:
    """What is wrong with the encoding's name or the folder's."""
    try:
        parts = encoding_chain(name) if NAME.fullmatch(name) else []
    except ValueError:
        parts = []
    if plugin in classes():
        return f"{plugin!r} is that of a built-in encoding"
    if parts.count(plugin) != 1 or any(part != plugin and part not in classes() for part in parts):
        return f"{name!r:.80} must contain {plugin!r} once, and otherwise built-in encodings only"
    expected = page_name(name)
    return None if folder == expected else f"of the folder is {folder!r}; expected {expected!r}"
