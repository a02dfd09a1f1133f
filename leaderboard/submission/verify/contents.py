"""Checks of the folder's contents: files, schema, hashes, names, source, and the report of ``lprime check``."""

from bench.check.checks import Fault, load_checks
from bench.check.report import Report
from bench.check.source_rules import ALLOWED_IMPORTS, source_faults, top_level_names
from bench.result import Result
from bench.suites.suite import load_suite, shipped
from bench.text_rules import invisible_character
from leaderboard.data.store import line_order
from leaderboard.submission import manifest
from leaderboard.submission.manifest import Submission
from tasks import InputError, plural, unknown

from . import text_fields
from .read_untrusted import MAX_BYTES, MAX_DEPTH, MAX_LINE, MAX_RUNS, R, parse_record
from .submission_checks import SubmissionData, label, raise_faults, submission_check

MAX_TEXT = 4000
"""Characters of one text in the check report."""


@submission_check(
    "files",
    expected="regular files with the expected names, no others, each within its size limit "
    f"(results {MAX_BYTES[manifest.RESULTS] >> 20} MiB)",
    advice="write the folder again with `lprime submit`, and add nothing to it",
)
def check_files(data: SubmissionData) -> str:
    raise_faults(data.contents.faults)
    total = sum(map(len, data.contents.files.values()))
    return f"{len(data.contents.files)} files, {total:,} bytes"


@submission_check(
    "submission",
    expected=f"{manifest.SUBMISSION} is strict JSON of the known schema, nested at most {MAX_DEPTH} deep",
    advice="write the folder again with `lprime submit`; do not edit it",
)
def check_submission(data: SubmissionData) -> str:
    submission = parse_json(data, manifest.SUBMISSION, Submission)
    data.parsed["submission"] = submission
    suite = submission.suite
    return f"{submission.name}, ranking {submission.ranking}, suite {suite.name} version {suite.version}"


@submission_check(
    "hashes",
    expected=f"{manifest.SUBMISSION} lists every other file, and no more, with its size and SHA-256",
    advice="write the folder again with `lprime submit`; do not edit it",
)
def check_hashes(data: SubmissionData) -> str:
    listed = {f.path: f for f in data.submission.files}
    others = {path: content for path, content in data.contents.files.items() if path != manifest.SUBMISSION}
    files = {f.path: f for f in manifest.file_records(others)}
    changed = [path for path in sorted(listed.keys() & files) if listed[path] != files[path]]
    faults = [f"{path} does not have the size and hash in {manifest.SUBMISSION}" for path in changed]
    faults += [f"{path} is listed but does not exist" for path in sorted(listed.keys() - files)]
    faults += [f"{path} exists but is not listed" for path in sorted(files.keys() - listed)]
    faults += ["a file is listed twice"] if len(listed) < len(data.submission.files) else []
    raise_faults(faults)
    return f"{len(files)} files with the listed hashes"


@submission_check(
    "results",
    expected=f"{manifest.RESULTS} contains one complete result per line, as strict JSON, ordered by task and seed",
    advice="write the folder again with `lprime submit`; run incomplete runs again",
)
def check_results(data: SubmissionData) -> str:
    if manifest.RESULTS not in data.contents.files:
        raise Fault(f"{manifest.RESULTS} could not be read")
    runs, lines = [], data.contents.files[manifest.RESULTS].removesuffix(b"\n").split(b"\n")
    if len(lines) > MAX_RUNS:
        raise Fault(f"{len(lines):,} lines, more than {MAX_RUNS}")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE:
            raise Fault(f"line {number} has {len(line):,} bytes, more than {MAX_LINE:,}")
        try:
            runs.append(parse_record(line, Result))
        except InputError as error:
            raise Fault(f"line {number}: {error}") from None
    if runs != sorted(runs, key=line_order):
        raise Fault("lines are not ordered by task and seed")
    data.parsed["results"] = runs
    return f"{len(runs)} runs"


@submission_check(
    "suite",
    expected="submission and results name the same suite, with its current version and fingerprint",
    advice="results of other versions of the suite or harness cannot be compared: run and submit the current version",
)
def check_suite(data: SubmissionData) -> str:
    claimed = data.submission.suite
    if data.given_suite is None and claimed.name not in shipped():
        raise Fault(str(unknown("suite", claimed.name, shipped())), "for a suite of your own, pass its file with --suite")
    suite = data.given_suite or load_suite(claimed.name)
    expected = suite.name, suite.version, suite.fingerprint
    claims = {manifest.SUBMISSION: (claimed.name, claimed.version, claimed.fingerprint)}
    claims |= {label(r): (r.suite, r.suite_version, r.fingerprint) for r in data.results}
    faults = [
        f"{where} has {' '.join(map(str, claim))}; expected {' '.join(map(str, expected))}"
        for where, claim in claims.items()
        if claim != expected
    ]
    raise_faults(faults)
    data.parsed["suite"] = suite
    return f"{suite.name} version {suite.version}, fingerprint {suite.fingerprint}"


@submission_check(
    "names",
    expected="names and texts are plain words: no markdown, HTML, path separators or control characters; the folder has the "
    "encoding's name; links are https",
    advice="write titles, authors and notes in plain words, and write the folder again with `lprime submit`",
)
def check_names(data: SubmissionData) -> str:
    submission = data.submission
    faults = [fault] if (fault := text_fields.name_fault(submission, data.name)) else []
    faults += [f"{field} {fault}" for field, fault in text_fields.submission_fields(submission) if fault]
    for run in data.results:
        faults += [f"{field} of {label(run)} {fault}" for field, fault in text_fields.result_fields(run) if fault]
    raise_faults(faults)
    return f"{submission.title}, by {', '.join(submission.authors)}"


@submission_check(
    "source",
    expected=f"UTF-8 text that parses as Python, has no invisible characters, imports only {ALLOWED_IMPORTS}, "
    "and has the hash that the results contain",
    advice="write the folder again with `lprime submit` from the source that ran, with all files that it imports next to it",
)
def check_source(data: SubmissionData) -> str:
    submission, sources = data.submission, data.contents.sources
    plugin = submission.plugin
    raise_faults(source_faults(sources))
    if plugin.file not in sources:
        raise Fault(f"{plugin.file}, which should contain the encoding's class, is not among the files")
    if plugin.cls not in top_level_names(sources[plugin.file]):
        raise Fault(f"{plugin.file} has no class {plugin.cls}")
    try:
        digest = manifest.submitted_source_hash(submission, sources)
    except ValueError as error:
        raise Fault(f"its hash cannot be computed: {error}") from None
    if digest != submission.source_sha256:
        changed = f"; or bench/encodings/{submission.takes_from[0]}.py has changed" if submission.takes_from else ""
        raise Fault(f"hash {digest[:12]}, but {manifest.SUBMISSION} has {submission.source_sha256[:12]}{changed}")
    others = [r for r in data.results if r.encoding.source_sha256 != digest]
    raise_faults([f"{label(r)} has source {r.encoding.source_sha256[:12]}, not {digest[:12]}" for r in others])
    return f"{plural(len(sources), 'file')}, hash {digest[:12]}"


@submission_check(
    "check report",
    expected=f"{manifest.CHECK} contains every check of `lprime check`, all passed, for this source; {manifest.CHECK_PAGE} "
    "is the same as a page",
    advice="run `lprime check` on the source, fix what it finds, and write the folder again with `lprime submit`",
)
def check_report(data: SubmissionData) -> str:
    submission, report = data.submission, parse_json(data, manifest.CHECK, Report)
    known, reported = [c.name for c in load_checks()], [f.check for f in report.findings]
    expected = {"encoding": submission.name, "ranking": submission.ranking, "source_sha256": submission.source_sha256}
    actual = {key: getattr(report, key) for key in expected}
    faults = [f"{key} is {actual[key]!r:.80}, not {value!r}" for key, value in expected.items() if actual[key] != value]
    faults += [f"check {f.check!r:.40} {f.status}" for f in report.findings if f.status not in ("passed", "undecided")]
    faults += [f"check {name!r} is missing" for name in known if name not in reported]
    faults += ["a check is unknown or duplicate"] if len(reported) > len(known) else []
    texts = [text for f in report.findings for text in (f.expected, f.found, f.advice)]
    if any(len(text) > MAX_TEXT or invisible_character(text) for text in texts):
        faults.append(f"a text has an invisible character, or more than {MAX_TEXT:,} characters")
    fields = {
        "versions": text_fields.versions_fault(report.versions),
        "device": text_fields.device_fault(report.device),
        "finished": text_fields.date_fault(report.finished),
    }
    faults += [f"{field} {fault}" for field, fault in fields.items() if fault]
    if not faults and report.markdown().encode() != data.contents.files.get(manifest.CHECK_PAGE):
        faults.append(f"{manifest.CHECK_PAGE} is not the page of {manifest.CHECK}")
    raise_faults(faults)
    return f"{len(known)} checks passed, {report.finished}"


def parse_json(data: SubmissionData, path: str, model: type[R]) -> R:
    """One of the JSON files as a record."""
    if path not in data.contents.files:
        raise Fault(f"{path} could not be read")
    try:
        return parse_record(data.contents.files[path], model)
    except InputError as error:
        raise Fault(f"{path}: {error}") from None
