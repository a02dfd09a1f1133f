"""A submission: what somebody sends who wants a row on the board, in a folder of its own.

::

    <folder>/submissions/<name>/
        submission.json      who, what, and the hash of every other file
        source/…             the encoding: all files that its source hash covers
        results.jsonl        one finished run a line, by task and seed, as the store has them
        check.json           what `lprime check` said of that source, and check.md, the same to be read

``submit.py`` writes one, ``verify/`` holds one to the rules of ``RULES.md`` without running any of it.
"""

import ast
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bench.results import Record

SUBMISSION, RESULTS, CHECK, CHECK_PAGE = "submission.json", "results.jsonl", "check.json", "check.md"
SOURCE = "source"

Text = Annotated[str, Field(max_length=2000)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
PLUGIN = r"[a-z][a-z0-9_]{0,63}"
MODULE = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
"""Of a file or folder under ``source``."""
SOURCE_PATH = rf"({MODULE}/){{0,4}}{MODULE}\.py"


class FileRecord(Record):
    """One file of the folder."""

    path: Annotated[str, Field(pattern=rf"^(results\.jsonl|check\.json|check\.md|{SOURCE}/{SOURCE_PATH})$")]
    bytes: Annotated[int, Field(ge=0)]
    sha256: Sha256


class Plugin(Record):
    """The encoding's own class, which the submission's name may put settings or a built-in wrapper around."""

    name: Annotated[str, Field(pattern=rf"^{PLUGIN}$")]
    file: Annotated[str, Field(pattern=rf"^{SOURCE_PATH}$")]
    """Below ``source``."""
    cls: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]


class Training(Record):
    """What it saw in training."""

    longest: dict[Text, Annotated[int, Field(ge=1)]]
    """Task → the longest length met."""
    extra_stage: bool
    """Whether a stage at longer lengths followed the recipe's steps."""
    task_aware: bool
    """Whether it looks at what tokens are, or what they mean."""


class SuiteRecord(Record):
    """Which suite was run."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
    version: int
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


class Submission(Record):
    """``submission.json``."""

    format: Literal[1] = 1
    name: Text
    """As results have it: ``my_encoding``, ``my_encoding(rate=0.5)``, ``randomised(my_encoding)``."""
    title: Text
    authors: Annotated[list[Text], Field(min_length=1, max_length=100)]
    paper: Text
    """An https link."""
    licence: Text
    """SPDX identifier, of the source."""
    note: Text
    ranking: Literal["standard", "longer", "task-aware"]
    training: Training
    suite: SuiteRecord
    plugin: Plugin
    source_sha256: Sha256
    """As results have it: over ``source``, the built-in files it takes from, and what it wraps."""
    takes_from: list[Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$")]]
    """Modules of ``bench/encodings`` that the source hash covers, because the source takes something from them."""
    files: Annotated[list[FileRecord], Field(max_length=100)]
    """All but this one, by path."""
    versions: dict[Text, Text]
    """What the submission was made with; results have their own."""
    made: Text
    """ISO 8601, UTC."""


def chain(name: str) -> list[str]:
    """The encodings that a name is made of, from the outermost: ``["randomised", "rope"]`` of ``randomised(rope(base=1.0))``.

    Raises:
        ValueError: no such name.
    """
    try:
        tree = ast.parse(name, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("not a name") from None
    found = []
    while isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and len(tree.args) <= 1:
        found.append(tree.func.id)
        if not tree.args:
            return found
        tree = tree.args[0]
    if not isinstance(tree, ast.Name):
        raise ValueError("not a name")
    return [*found, tree.id]


def source_hash(of: Submission, sources: Mapping[str, bytes]) -> str:
    """What ``bench.encodings.source_hash`` gives for the submission's source, told without running it.

    Arguments:
        sources: path below ``source`` → content.

    Raises:
        ValueError: the name is made of something that is neither the plugin nor built in, or there is no such built-in file.
    """
    from bench import encodings

    here = Path(encodings.__file__).parent
    digest = ""
    for name in reversed(chain(of.name)):
        if name == of.plugin.name:
            built_in = [here / f"{module}.py" for module in sorted(of.takes_from)]
            if lacking := [path.name for path in built_in if not path.is_file()]:
                raise ValueError(f"bench/encodings has no {lacking[0]}")
            parts = [*(path.read_bytes() for path in built_in), *(sources[path] for path in sorted(sources))]
        elif name in encodings.classes():
            parts = encodings.sources(encodings.classes()[name])
        else:
            raise ValueError(f"{name!r} is neither {of.plugin.name!r} nor built in")
        digest = hashlib.sha256(b"".join(parts) + digest.encode()).hexdigest()
    return digest
