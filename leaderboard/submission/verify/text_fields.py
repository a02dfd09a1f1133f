"""Validation of the texts in a submission: names, titles, versions, dates. Each ``…_fault`` returns what is wrong, or None."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from bench.encodings import Stage, classes
from bench.plugins.references import encoding_chain
from bench.result import SOURCE_KINDS, Result, run_path
from bench.runs.run import WEIGHTS
from bench.text_rules import NAME, WORD, link_fault, pattern_fault, plain_text_fault, settings_fault
from leaderboard.data.file_names import file_name, page_name
from leaderboard.submission.manifest import Submission
from tasks import InputError

LICENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]{1,63}")
VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,59}")
PACKAGE = re.compile(r"[a-z0-9_-]{1,40}")
DEVICE = re.compile(r"([A-Za-z0-9._()+,-]|@(?= )| (?! )){1,120}")
COMMIT = re.compile(r"[0-9a-f]{40}(-dirty)?")
MAX_NOTE = 1000
CLOCK_SKEW = timedelta(days=1)


def versions_fault(versions: Mapping[str, str]) -> str | None:
    valid = len(versions) <= 20 and all(PACKAGE.fullmatch(k) and VERSION.fullmatch(v) for k, v in versions.items())
    return None if valid else "are not versions of packages"


def device_fault(text: str) -> str | None:
    return pattern_fault(DEVICE, "the name of a device", text)


def parse_date(text: str) -> datetime | None:
    """A date as in results: ISO 8601 in UTC, to the second."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return date if date.utcoffset() == timedelta(0) and date.isoformat(timespec="seconds") == text else None


def share_fault(share: float | None) -> str | None:
    """What is wrong with the share of an extra training stage."""
    most = Stage().share
    return None if share is None or 0 < share <= most else f"is {share}; expected at most {most:g}"


def date_fault(text: str) -> str | None:
    date = parse_date(text)
    if date is None:
        return "is not a date in UTC such as 2026-01-31T12:00:00+00:00"
    return "is in the future" if date > datetime.now(UTC) + CLOCK_SKEW else None


def weights_fault(run: Result) -> str | None:
    """What is wrong with the place of the weights: it is in the folder of the run or of the run whose training it shares."""
    names = run.encoding.name, run.trained_as
    places = [f"{run_path(run.suite, run.task, name, run.seed)}/{WEIGHTS}" for name in names if name]
    return None if run.weights in ("", *places) else f"is {run.weights!r:.80}; expected {places[-1]!r}, or empty"


def submission_fields(submission: Submission) -> Iterator[tuple[str, str | None]]:
    """Each text of ``submission.json``, with its fault or None."""
    yield "title", plain_text_fault(submission.title)
    for author in submission.authors:
        yield "author", plain_text_fault(author)
    yield "note", plain_text_fault(submission.note, MAX_NOTE) if submission.note else None
    yield "paper", link_fault(submission.paper)
    yield "licence", pattern_fault(LICENCE, "an SPDX identifier", submission.licence)
    yield "versions", versions_fault(submission.versions)
    yield "made", date_fault(submission.made)
    for task in submission.training.longest:
        yield "a task", pattern_fault(WORD, "a word", task)


def result_fields(run: Result) -> Iterator[tuple[str, str | None]]:
    """Each text of a result that no other check covers, with its fault or None."""
    encoding = run.encoding
    yield "family", plain_text_fault(encoding.family)
    yield "title", plain_text_fault(encoding.title)
    yield "link", link_fault(encoding.link)
    yield "year", None if 1986 <= encoding.year <= datetime.now(UTC).year + 1 else f"is not a year: {encoding.year}"
    yield "source", None if encoding.source in ("", *SOURCE_KINDS) else f"is none of {', '.join(SOURCE_KINDS)}"
    yield "lengths", plain_text_fault(encoding.lengths, allowed="/") if encoding.lengths else None
    yield "stage_share", share_fault(encoding.stage_share)
    yield "trained_as", pattern_fault(NAME, "the name of an encoding", run.trained_as) if run.trained_as else None
    yield "weights", weights_fault(run)
    yield "settings", settings_fault(encoding.settings)
    yield "versions", versions_fault(run.versions)
    yield "device", device_fault(run.device)
    yield "threads", None if 1 <= run.threads <= 1024 else f"are {run.threads}"
    yield "commit", pattern_fault(COMMIT, "a commit", run.commit) if run.commit is not None else None
    yield "started", date_fault(run.started)
    yield "finished", date_fault(run.finished)


def name_fault(submission: Submission, folder: str) -> str | None:
    """What is wrong with the encoding's name or the folder's."""
    name, plugin = submission.name, submission.plugin.name
    try:
        if not NAME.fullmatch(name):
            raise InputError("the encoding's name contains more than letters, digits, brackets, commas and ._='+-")
        parts = encoding_chain(name)
        file_name(name)
    except ValueError as error:
        return str(error)
    if plugin in classes():
        return f"the name {plugin!r} is that of a built-in encoding"
    if parts.count(plugin) != 1 or any(part != plugin and part not in classes() for part in parts):
        return f"the encoding's name {name!r} must contain {plugin!r} once, and otherwise built-in encodings only"
    expected = page_name(name)
    return None if folder == expected else f"the folder is named {folder!r}; expected {expected!r}"
