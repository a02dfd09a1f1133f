"""Results of submissions, which are claims until they are recomputed."""

from collections.abc import Sequence
from pathlib import Path

from bench.result import Result
from bench.runs.progress import say
from bench.suites.suite import Suite
from tasks import InputError

from .manifest import RESULTS, SUBMISSION, Submission
from .verify import verify_submission
from .verify.read_untrusted import parse_record, read_folder

SUBMISSIONS = "submissions"


def submitted_results(suite: Suite, board: Path, encodings: Sequence[str] | None = None) -> list[Result]:
    """The results of all submissions next to a board that are of this suite and pass ``lprime verify``.

    Arguments:
        encodings: only these; None takes all.
    """
    found = []
    for place in sorted((board.parent / SUBMISSIONS).glob(f"*/{SUBMISSION}")):
        contents = read_folder(place.parent)
        try:
            submission = parse_record(contents.files.get(SUBMISSION, b""), Submission)
        except InputError:
            continue  # `lprime verify` reports it
        if submission.suite.name != suite.name or (encodings and submission.name not in encodings):
            continue
        report = verify_submission(place.parent, suite, board)
        if not report.passed:
            fault = next(f for f in report.findings if f.status == "failed")
            say(f"the submission {place.parent} does not pass: {fault.check}: {fault.found}")
            continue
        lines = contents.files[RESULTS].removesuffix(b"\n").split(b"\n")
        found += [parse_record(line, Result) for line in lines]
    return found
