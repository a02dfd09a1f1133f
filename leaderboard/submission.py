"""A submission: the source of an encoding, its description, and the suite that it asks to run on. ``lprime submit`` writes it,
and ``lprime run --sealed`` runs it.

::

    <folder>/submissions/<name>/
        submission.json      who and what
        source/<file>.py     the file of the encoding

A submission is read as data: links are not followed, and files that are too large or not expected are not opened.
"""

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from bench.files import folder_atomic, write_atomic
from bench.plugins.record import encoding_record
from bench.plugins.references import absolute, map_references, parts, references_in
from bench.plugins.registry import get_encoding, is_built_in, load_reference
from bench.result import EncodingRecord, Record, first_fault, reading
from bench.runs.run import WEIGHTS, Run
from bench.sealed.sandbox import SealedCode
from bench.suites.suite import Suite
from bench.text_rules import link_fault, plain_text_fault
from leaderboard.results.file_names import file_name, page_name
from tasks import InputError

SUBMISSION, SOURCE = "submission.json", "source"
MAX_BYTES = 2**18
"""Of each file."""
SOURCE_PATH = re.compile(rf"{SOURCE}/[A-Za-z0-9_]+\.py")
COPIES = ".submissions"
"""Folder of the submitted source below the results folder, where compute nodes see it too."""
SECONDS = 6 * 3600.0
"""Limit on each process of a sealed run."""
Text = Annotated[str, Field(max_length=2000)]


class Submission(Record):
    """The content of ``submission.json``."""

    format: Literal[3] = 3
    authors: Annotated[list[Text], Field(min_length=1, max_length=100)]
    licence: Text
    """SPDX identifier of the source's licence."""
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
    source: bytes
    """Content of its source file."""

    @property
    def reference(self) -> str:
        """The encoding, as for ``lprime run --encoding``."""
        return absolute(self.submission.reference, (self.place / SOURCE).resolve())


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
    with reading(place / SUBMISSION, "is not a submission", "write it again with `lprime submit`"):
        submission = Submission.model_validate_json(files[SUBMISSION])
    info = submission.encoding
    file_name(info.name)
    faults = [f"the name {info.name!r} belongs to a built-in encoding"] if is_built_in(info.name) else []
    texts = [("title", info.title), *(("author", author) for author in submission.authors)]
    faults += [f"{field} {fault}" for field, text in texts if (fault := plain_text_fault(text))]
    faults += [f"link {fault}"] if (fault := link_fault(info.link)) else []
    if faults:
        raise InputError(f"{place}: {'; '.join(faults)}")
    named = [f"{SOURCE}/{parts(reference)[0]}" for reference in references_in(submission.reference)]
    if named != [path for path in files if SOURCE_PATH.fullmatch(path)]:
        raise InputError(f"{place}: {submission.reference!r:.80} should name its one source file, as in my_encoding.py")
    return SubmissionFolder(place, submission, files[named[0]])


def read_files(place: Path) -> dict[str, bytes]:
    """The files of a submission, all of which have an expected name and size.

    Raises:
        InputError: there is another one, or a link.
    """
    files = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place).as_posix()
        if path.is_dir() and not path.is_symlink():
            continue
        if path.is_symlink() or not path.is_file() or not (name == SUBMISSION or SOURCE_PATH.fullmatch(name)):
            raise InputError(f"{place}: {name!r:.120} is not expected in a submission, or is a link")
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path} has more than {MAX_BYTES:,} bytes")
        files[name] = path.read_bytes()
    return files


def write_submission(reference: str, suite: Suite, to: Path, licence: str = "Apache-2.0") -> Path:
    """Write ``<to>/<name>/`` for an encoding, atomically.

    Arguments:
        reference: a file, also with settings or inside a wrapper.

    Raises:
        InputError: the encoding is in no file, or the folder exists; a name, text or file that the rules do not allow.
    """
    cls, found = get_encoding(reference), references_in(reference)
    name, place = cls.info.name, to / page_name(cls.info.name)
    if len(found) != 1:
        raise InputError(f"expected one file of your own, such as my_encoding.py, got {reference!r}")
    if place.exists():
        raise InputError(f"{place} exists already; delete it, or choose another --to")
    plugin, file = load_reference(found[0]), Path(parts(found[0])[0])
    try:
        submission = Submission(
            authors=[plugin.info.authors],
            licence=licence,
            suite=suite.name,
            encoding=encoding_record(cls),
            reference=map_references(reference, lambda _: f"{file.name}:{plugin.__qualname__}"),
        )
    except ValidationError as error:
        raise InputError(f"{name} cannot be submitted: {first_fault(error)}") from None
    with folder_atomic(place) as folder:
        (folder / SUBMISSION).write_text(submission.model_dump_json(indent=1) + "\n", encoding="utf-8")
        (folder / SOURCE).mkdir()
        (folder / SOURCE / file.name).write_bytes(file.read_bytes())
        try:
            read_submission(folder)
        except InputError as error:
            raise InputError(f"{name} cannot be submitted: {str(error).removeprefix(f'{folder}: ')}") from None
    return place


def sealed_code(found: SubmissionFolder, out: Path) -> SealedCode:
    """The code of a submission, copied below the results folder: the folder that was read is what runs.

    Its hash is of the source that was read, in place of the author's.
    """
    digest = hashlib.sha256(found.source).hexdigest()
    place = out.resolve() / COPIES / digest[:16]
    for reference in references_in(found.submission.reference):
        write_atomic(place / parts(reference)[0], found.source)
    record = found.submission.encoding.model_copy(update={"source_sha256": digest})
    return SealedCode(absolute(found.submission.reference, place), [place], seconds=SECONDS, encoding=record)


def refuse_other_results(runs: Sequence[Run], code: SealedCode, out: Path) -> None:
    """Refuse results and weights of these runs that are not sealed, or are of other source.

    Raises:
        InputError: there is one.
    """
    for run in runs:
        result = run.result(out)
        if (run.folder(out) / WEIGHTS).exists() and not result:  # sealed runs keep none
            raise InputError(f"{run.folder(out)} has weights of a training that was not sealed; choose another --out")
        if result and not (result.sealed and result.encoding.source_sha256 == code.encoding.source_sha256):
            raise InputError(f"{run.folder(out)} has a result that is not sealed, or of other source; choose another --out")
