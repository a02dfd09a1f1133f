"""Words that strangers wrote: names, titles, whatever is shown somewhere. Nothing in them may do more than be read."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from bench.check.words import NAME, WORD, link, matches, plain, settings
from bench.encodings import classes
from bench.results import Result
from tasks import InputError

from ..names import file_name, page_name
from ..submission import Submission, chain

LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{1,63}")
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,59}")
PACKAGE = re.compile(r"[a-z0-9_-]{1,40}")
DEVICE = re.compile(r"([A-Za-z0-9._()+,-]|@(?= )| (?! )){1,120}")
COMMIT = re.compile(r"[0-9a-f]{40}(-dirty)?")
LONGEST_NOTE = 1000
SKEW = timedelta(days=1)
"""By which two clocks may differ."""


def versions(found: Mapping[str, str]) -> str | None:
    fine = len(found) <= 20 and all(PACKAGE.fullmatch(k) and VERSION.fullmatch(v) for k, v in found.items())
    return None if fine else "are no versions of packages"


def date(text: str) -> datetime | None:
    """Of a date as results have it: ISO 8601 in UTC, to the second."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.utcoffset() == timedelta(0) and found.isoformat(timespec="seconds") == text else None


def dated(text: str) -> str | None:
    found = date(text)
    if found is None:
        return "is no date in UTC such as 2026-01-31T12:00:00+00:00"
    return "lies in the future" if found > datetime.now(UTC) + SKEW else None


def of_submission(of: Submission) -> Iterator[tuple[str, str | None]]:
    """Each text of ``submission.json``, with what is wrong with it."""
    yield "title", plain(of.title)
    for author in of.authors:
        yield "author", plain(author)
    yield "note", plain(of.note, LONGEST_NOTE) if of.note else None
    yield "paper", link(of.paper)
    yield "licence", matches(LICENCE, "SPDX identifier", of.licence)
    yield "versions", versions(of.versions)
    yield "made", dated(of.made)
    for task in of.training.longest:
        yield "a task", matches(WORD, "word", task)


def of_result(run: Result) -> Iterator[tuple[str, str | None]]:
    """Each text of a result that nothing else is compared with."""
    yield "family", plain(run.encoding.family)
    yield "title", plain(run.encoding.title)
    yield "link", link(run.encoding.link)
    yield "year", None if 1986 <= run.encoding.year <= datetime.now(UTC).year + 1 else f"is no year: {run.encoding.year}"
    yield "settings", settings(run.encoding.settings)
    yield "versions", versions(run.versions)
    yield "device", matches(DEVICE, "device", run.device)
    yield "threads", None if 1 <= run.threads <= 1024 else f"are {run.threads}"
    yield "commit", matches(COMMIT, "commit", run.commit) if run.commit is not None else None
    yield "started", dated(run.started)
    yield "finished", dated(run.finished)


def of_name(of: Submission, folder: str) -> str | None:
    """What is wrong with the encoding's name, or with the folder's."""
    try:
        if not NAME.fullmatch(of.name):
            raise InputError("the encoding's name holds more than letters, digits, brackets, commas and ._='+-")
        parts = chain(of.name)
        file_name(of.name)
    except ValueError as error:
        return str(error)
    if of.plugin.name in classes():
        return f"the name {of.plugin.name!r} is that of a built-in encoding"
    strangers = [part for part in parts if part != of.plugin.name and part not in classes()]
    if parts.count(of.plugin.name) != 1 or strangers:
        return f"the encoding's name {of.name!r} is not made of {of.plugin.name!r}, once, and of built-in ones"
    expected = page_name(of.name)
    return None if folder == expected else f"the folder is named {folder!r}; expected {expected!r}"
