"""What is in the folder, and who says so: files, form, hashes, names, source, and the report of ``lprime check``."""

import hashlib
import unicodedata

from bench.check.report import Report
from bench.check.source import IMPORTS, bound, source_faults
from bench.check.subject import Fault, load_checks
from bench.check.words import INVISIBLE
from bench.results import Result
from bench.suite import load_suite, shipped
from tasks import InputError, unknown

from .. import submission as form
from ..store import order
from ..submission import Submission
from . import text
from .reading import DEPTH, MOST, MOST_LINE, MOST_RUNS, record
from .subject import Subject, label, listed, named


@named(
    "files",
    expected=f"plain files of the expected names, and no others, each within its size (results {MOST[form.RESULTS] >> 20} MiB)",
    advice="make the folder anew with `lprime submit`, and put nothing beside what it writes",
)
def files(subject: Subject) -> str:
    if subject.contents.faults:
        raise Fault(listed(subject.contents.faults))
    total = sum(map(len, subject.contents.files.values()))
    return f"{len(subject.contents.files)} files, {total:,} bytes"


@named(
    "submission",
    expected=f"{form.SUBMISSION} is strict JSON of the known form, nested at most {DEPTH} deep",
    advice="make the folder anew with `lprime submit`; nothing in it is written by hand",
)
def submission(subject: Subject) -> str:
    found = parsed(subject, form.SUBMISSION, Submission)
    subject.found["submission"] = found
    return f"{found.name}, ranking {found.ranking}, suite {found.suite.name} version {found.suite.version}"


@named(
    "hashes",
    expected=f"{form.SUBMISSION} names every other file, with its size and SHA-256, and nothing else",
    advice="make the folder anew with `lprime submit` rather than edit it",
)
def hashes(subject: Subject) -> str:
    said = {f.path: (f.bytes, f.sha256) for f in subject.submission.files}
    there = {
        path: (len(data), hashlib.sha256(data).hexdigest())
        for path, data in subject.contents.files.items()
        if path != form.SUBMISSION
    }
    faults = [
        f"{path} is not what {form.SUBMISSION} says of it" for path in sorted(said.keys() & there) if said[path] != there[path]
    ]
    faults += [f"{path} is named but not there" for path in sorted(said.keys() - there)]
    faults += [f"{path} is there but not named" for path in sorted(there.keys() - said)]
    faults += ["a file is named twice"] if len(said) < len(subject.submission.files) else []
    if faults:
        raise Fault(listed(faults))
    return f"{len(there)} files as they were written"


@named(
    "results",
    expected=f"{form.RESULTS} holds one whole result a line, as strict JSON, by task and seed",
    advice="make the folder anew with `lprime submit`; a run that lacks something is run again",
)
def results(subject: Subject) -> str:
    if form.RESULTS not in subject.contents.files:
        raise Fault(f"{form.RESULTS} could not be read")
    runs, lines = [], subject.contents.files[form.RESULTS].removesuffix(b"\n").split(b"\n")
    if len(lines) > MOST_RUNS:
        raise Fault(f"{len(lines):,} lines, more than {MOST_RUNS}")
    for number, line in enumerate(lines, 1):
        if len(line) > MOST_LINE:
            raise Fault(f"line {number} has {len(line):,} bytes, more than {MOST_LINE:,}")
        try:
            runs.append(record(line, Result))
        except InputError as error:
            raise Fault(f"line {number}: {error}") from None
    if runs != sorted(runs, key=order):
        raise Fault("lines do not stand by task and seed")
    subject.found["results"] = runs
    return f"{len(runs)} runs"


@named(
    "suite",
    expected="submission and results name one suite, in the version and with the fingerprint that it has here",
    advice="results of another version of suite or harness cannot be compared: run the suite as it is now, and submit that",
)
def suite(subject: Subject) -> str:
    said = subject.submission.suite
    if subject.given is None and said.name not in shipped():
        raise Fault(str(unknown("suite", said.name, shipped())), "name its file with --suite, if it is to be verified at all")
    here = subject.given or load_suite(said.name)
    ours = here.name, here.version, here.fingerprint
    claims = {form.SUBMISSION: (said.name, said.version, said.fingerprint)}
    claims |= {label(r): (r.suite, r.suite_version, r.fingerprint) for r in subject.results}
    faults = [
        f"{who} says {' '.join(map(str, claim))}; here it is {' '.join(map(str, ours))}"
        for who, claim in claims.items()
        if claim != ours
    ]
    if faults:
        raise Fault(listed(faults))
    subject.found["suite"] = here
    return f"{here.name} version {here.version}, fingerprint {here.fingerprint}"


@named(
    "names",
    expected="names and texts are plain words: no markdown, HTML, path separators or control characters; the folder has the "
    "encoding's name; links are https",
    advice="write titles, authors and notes in plain words, and make the folder anew with `lprime submit`",
)
def names(subject: Subject) -> str:
    of = subject.submission
    faults = [fault] if (fault := text.of_name(of, subject.name)) else []
    faults += [f"{what} {fault}" for what, fault in text.of_submission(of) if fault]
    for run in subject.results:
        faults += [f"{what} of {label(run)} {fault}" for what, fault in text.of_result(run) if fault]
    if faults:
        raise Fault(listed(faults))
    return f"{of.title}, by {', '.join(of.authors)}"


@named(
    "source",
    expected=f"UTF-8 text that parses as Python, shows all its characters, imports only {IMPORTS}, "
    "and has the hash that the results name",
    advice="make the folder anew with `lprime submit` from the source that ran; what it needs of other files belongs beside it",
)
def source(subject: Subject) -> str:
    of, sources = subject.submission, subject.contents.sources
    if faults := source_faults(sources):
        raise Fault(listed(faults))
    if of.plugin.file not in sources:
        raise Fault(f"{of.plugin.file}, which has the encoding's class, is not among the files")
    if of.plugin.cls not in bound(sources[of.plugin.file]):
        raise Fault(f"{of.plugin.file} has no class {of.plugin.cls}")
    try:
        found = form.source_hash(of, sources)
    except ValueError as error:
        raise Fault(f"its hash cannot be told: {error}") from None
    if found != of.source_sha256:
        changed = f"; or bench/encodings/{of.takes_from[0]}.py is another one here" if of.takes_from else ""
        raise Fault(f"hash {found[:12]}, but {form.SUBMISSION} says {of.source_sha256[:12]}{changed}")
    others = [label(r) for r in subject.results if r.encoding.source_sha256 != found]
    if others:
        raise Fault(f"hash {found[:12]}, but other source made {listed(others)}")
    return f"{len(sources)} file{'s' * (len(sources) != 1)}, hash {found[:12]}"


@named(
    "check report",
    expected=f"{form.CHECK} holds every check of `lprime check`, all passed, for this source; {form.CHECK_PAGE} says the same",
    advice="run `lprime check` on the source, mend what it finds, and make the folder anew with `lprime submit`",
)
def check_report(subject: Subject) -> str:
    of, report = subject.submission, parsed(subject, form.CHECK, Report)
    subject.found["report"] = report
    known, there = [c.name for c in load_checks()], [f.check for f in report.findings]
    said = {"encoding": of.name, "ranking": of.ranking, "source_sha256": of.source_sha256}
    faults = [
        f"{what} is {getattr(report, what)!r:.80}, not {value!r}"
        for what, value in said.items()
        if getattr(report, what) != value
    ]
    faults += [f"check {f.check!r:.40} {f.status}" for f in report.findings if f.status != "passed"]
    faults += [f"check {name!r} is missing" for name in known if name not in there]
    faults += ["a check that is unknown, or stands twice"] if len(there) > len(known) else []
    texts = [t for f in report.findings for t in (f.expected, f.found, f.advice)]
    faults += ["an invisible character, or a text without end"] if any(map(hostile, texts)) else []
    about = [text.versions(report.versions), text.matches(text.DEVICE, "device", report.device), text.dated(report.finished)]
    faults += [fault for fault in about if fault]
    if not faults and report.markdown().encode() != subject.contents.files.get(form.CHECK_PAGE):
        faults.append(f"{form.CHECK_PAGE} is not what {form.CHECK} gives")
    if faults:
        raise Fault(listed(faults))
    return f"{len(known)} checks passed, {report.finished}"


def parsed(subject: Subject, path: str, model):
    """One of the JSON files as a record."""
    if path not in subject.contents.files:
        raise Fault(f"{path} could not be read")
    try:
        return record(subject.contents.files[path], model)
    except InputError as error:
        raise Fault(f"{path}: {error}") from None


def hostile(words: str) -> bool:
    return len(words) > 4000 or any(unicodedata.category(c) in INVISIBLE for c in words)
