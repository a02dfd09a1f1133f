"""A submission: the source of an encoding, its description, and the suite that it asks to run on.

::

    <folder>/submissions/<name>/
        submission.json      who and what
        source/…             all files that the source hash of the encoding covers
        results.csv          optional: the author's own results, which are shown and never used

A submission is read as data: links are not followed, and files that are too large or not expected are not opened.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from bench.plugins.references import absolute, parts, references_in
from bench.plugins.registry import is_built_in
from bench.result import EncodingRecord, Record, first_fault
from bench.text_rules import link_fault, plain_text_fault
from leaderboard.results.file_names import file_name
from tasks import InputError

SUBMISSION, SOURCE, RESULTS = "submission.json", "source", "results.csv"
LIMITS = {SUBMISSION: 2**18, RESULTS: 2**20}
"""Most bytes of each file."""
MAX_SOURCE_BYTES, MAX_FILES = 2**18, 100
SOURCE_PATH = re.compile(rf"{SOURCE}/([A-Za-z0-9_]+/){{0,4}}[A-Za-z0-9_]+\.py")
Text = Annotated[str, Field(max_length=2000)]


class Submission(Record):
    """The content of ``submission.json``."""

    format: Literal[3] = 3
    authors: Annotated[list[Text], Field(min_length=1, max_length=100)]
    licence: Text
    """SPDX identifier of the source's licence."""
    note: Text = ""
    suite: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,63}$")]
    encoding: EncodingRecord
    """The description as results have it. Its name may add settings or a built-in wrapper: ``randomised(my_encoding)``."""
    reference: Text
    """The encoding as for ``lprime run --encoding``, with its file below ``source``: ``randomised(mine.py:Mine)``."""


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
        return absolute(self.submission.reference, (self.place / SOURCE).resolve())

    @property
    def record(self) -> EncodingRecord:
        """The description, with a hash of the source in this folder in place of the author's."""
        digest = hashlib.sha256()
        for path in sorted(self.sources):
            digest.update(f"{path}\0{len(self.sources[path])}\0".encode() + self.sources[path])
        return self.submission.encoding.model_copy(update={"source_sha256": digest.hexdigest()})


def is_submission(place: str) -> bool:
    return os.path.isfile(os.path.join(place, SUBMISSION))


def read_submission(place: Path) -> SubmissionFolder:
    """Read a submission, without running any of it.

    Raises:
        InputError: a file that is missing, not expected, too large or malformed; a name or text that the rules do not allow.
    """
    files = read_files(place)
    if SUBMISSION not in files:
        raise InputError(f"{place} has no {SUBMISSION}; expected a folder written by `lprime submit`")
    try:
        submission = Submission.model_validate_json(files[SUBMISSION])
    except ValidationError as error:
        raise InputError(
            f"{place / SUBMISSION} is not a submission ({first_fault(error)}); write it again with `lprime submit`"
        ) from None
    sources = {path.removeprefix(f"{SOURCE}/"): data for path, data in files.items() if path.startswith(f"{SOURCE}/")}
    if faults := [f"{field} {fault}" for field, fault in text_faults(submission) if fault]:
        raise InputError(f"{place}: {'; '.join(faults)}")
    if [parts(reference)[0] in sources for reference in references_in(submission.reference)] != [True]:
        raise InputError(f"{place}: {submission.reference!r:.80} should name one of its source files, as in my_encoding.py")
    return SubmissionFolder(place, submission, sources)


def read_files(place: Path) -> dict[str, bytes]:
    """The files of a submission, all of which have an expected name and size.

    Raises:
        InputError: there is another one, or a link.
    """
    paths, files = list(islice(place.rglob("*"), MAX_FILES + 1)), {}
    if len(paths) > MAX_FILES:
        raise InputError(f"{place} has more than {MAX_FILES} files")
    for path in sorted(paths):
        name = path.relative_to(place).as_posix()
        if path.is_dir() and not path.is_symlink():
            continue
        if path.is_symlink() or not path.is_file() or not (name in LIMITS or SOURCE_PATH.fullmatch(name)):
            raise InputError(f"{place}: {name!r:.120} is not expected in a submission, or is a link")
        if path.stat().st_size > (limit := LIMITS.get(name, MAX_SOURCE_BYTES)):
            raise InputError(f"{path} has more than {limit:,} bytes")
        files[name] = path.read_bytes()
    return files


def text_faults(submission: Submission) -> Iterator[tuple[str, str | None]]:
    """Each text, with its fault or None.

    Raises:
        InputError: the encoding's name cannot be that of a file.
    """
    info = submission.encoding
    file_name(info.name)
    yield "the name", f"{info.name!r} is that of a built-in encoding" if is_built_in(info.name) else None
    yield "title", plain_text_fault(info.title)
    for author in submission.authors:
        yield "author", plain_text_fault(author)
    yield "note", plain_text_fault(submission.note, 1000) if submission.note else None
    yield "link", link_fault(info.link)
    yield "licence", plain_text_fault(submission.licence)
    yield "family", plain_text_fault(info.family)
    yield "lengths", plain_text_fault(info.lengths, allowed="/") if info.lengths else None
