"""The files of a submission, which requests a row on the board, and the schema of ``submission.json``.

::

    <folder>/submissions/<name>/
        submission.json      who, what, and the hash of every other file
        source/…             the encoding: all files that its source hash covers
        results.jsonl        one finished run per line, by task and seed, as in the published results
        check.json           the report of `lprime check` for that source; check.md is the same as a page

``submit.py`` writes a submission; ``verify/`` checks one against ``RULES.md`` without running any of it.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bench import encodings
from bench.plugins.references import encoding_chain
from bench.plugins.source_hash import sources as sources_of
from bench.result import RankingClass, Record

SUBMISSION, RESULTS, CHECK, CHECK_PAGE = "submission.json", "results.jsonl", "check.json", "check.md"
SOURCE = "source"

Text = Annotated[str, Field(max_length=2000)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
PLUGIN = r"[a-z][a-z0-9_]{0,63}"
MODULE = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
"""The name of a file or folder under ``source``."""
SOURCE_PATH = rf"({MODULE}/){{0,4}}{MODULE}\.py"


class FileRecord(Record):
    path: Annotated[str, Field(pattern=rf"^(results\.jsonl|check\.json|check\.md|{SOURCE}/{SOURCE_PATH})$")]
    bytes: Annotated[int, Field(ge=0)]
    sha256: Sha256


class Plugin(Record):
    """The submitted class; the submission's name may add settings or a built-in wrapper."""

    name: Annotated[str, Field(pattern=rf"^{PLUGIN}$")]
    file: Annotated[str, Field(pattern=rf"^{SOURCE_PATH}$")]
    """Path below ``source``."""
    cls: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class Training(Record):
    """Lengths and information used in training."""

    longest: dict[Text, Annotated[int, Field(ge=1)]]
    """Task → longest training length."""
    extra_stage: bool
    """Whether training ends with a further stage at longer lengths."""
    task_aware: bool
    """Whether the encoding uses what tokens are, or what they mean."""


class SuiteRecord(Record):
    """The suite that was run."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    version: int
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class Submission(Record):
    """The content of ``submission.json``."""

    format: Literal[1] = 1
    name: Text
    """Name as in results: ``my_encoding``, ``my_encoding(rate=0.5)``, ``randomised(my_encoding)``."""
    title: Text
    authors: Annotated[list[Text], Field(min_length=1, max_length=100)]
    paper: Text
    licence: Text
    """SPDX identifier of the source's licence."""
    note: Text
    ranking: RankingClass
    training: Training
    suite: SuiteRecord
    plugin: Plugin
    source_sha256: Sha256
    """Hash as in results: of ``source``, the built-in files it imports from, and the encodings it wraps."""
    takes_from: list[Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$")]]
    """Modules of ``bench/encodings`` that the source imports from, so that its hash covers them."""
    files: Annotated[list[FileRecord], Field(max_length=100)]
    """All files but ``submission.json``, by path."""
    versions: dict[Text, Text]
    """Package versions of ``lprime submit``; each result records those of its run."""
    made: Text
    """Date in ISO 8601, UTC."""


def file_records(contents: Mapping[str, bytes]) -> list[FileRecord]:
    """Path → content of files as records, by path."""
    return [
        FileRecord(path=path, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        for path, content in sorted(contents.items())
    ]


def submitted_source_hash(submission: Submission, sources: Mapping[str, bytes]) -> str:
    """``bench.plugins.source_hash.source_hash`` of the submission's source, computed without running it.

    Arguments:
        sources: path below ``source`` → content.

    Raises:
        ValueError: the name contains an encoding that is neither the plugin nor built in, or a built-in file does not exist.
    """
    folder = Path(encodings.__file__).parent
    digest = ""
    for name in reversed(encoding_chain(submission.name)):
        if name == submission.plugin.name:
            built_in = [folder / f"{module}.py" for module in sorted(submission.takes_from)]
            if missing := [path.name for path in built_in if not path.is_file()]:
                raise ValueError(f"bench/encodings has no {missing[0]}")
            parts = [*(path.read_bytes() for path in built_in), *(sources[path] for path in sorted(sources))]
        elif name in encodings.classes():
            parts = sources_of(encodings.classes()[name])
        else:
            raise ValueError(f"{name!r} is neither {submission.plugin.name!r} nor built in")
        digest = hashlib.sha256(b"".join(parts) + digest.encode()).hexdigest()
    return digest
