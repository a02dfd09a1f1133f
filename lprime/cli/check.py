"""``lprime check``: check an encoding against the rules."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .options import Json


def check(
    encoding: Annotated[str, typer.Argument(metavar="ENCODING", help="A file, a name, or the folder of a submission.")],
    as_json: Json = False,
    sandbox: Annotated[
        bool | None,
        typer.Option(
            "--sandbox/--unsafe",
            help="Refuse to run without a sandbox, or run without one [default: use one if the machine has it].",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Check an encoding in a sandbox, in under a minute.

    Exit code 1 if a check failed, 2 if the encoding cannot be loaded or its hooks cannot be called.
    """
    from bench.check import CheckOutcome, check_encoding
    from leaderboard.submission import is_submission, read_submission

    found = read_submission(Path(encoding)) if is_submission(encoding) else None

    def print_finding(finding: CheckOutcome) -> None:
        if finding.status != "not run" and not as_json:
            print("\n".join(map(printable, finding.lines())), flush=True)

    report = check_encoding(
        found.reference if found else encoding,
        on_finding=print_finding,
        sandbox=sandbox,
        say=lambda text: print(text, file=sys.stderr),
    )
    if as_json:
        print(report.model_dump_json(indent=1))
        return int(not report.passed)
    if found:
        print(f"\n{'unusual' if report.unusual else 'nothing unusual'} in its source:")
        for line in report.unusual:
            print(f"      {printable(line)}")
    print(f"\n{printable(report.summary())}")
    return int(not report.passed)


def printable(text: str) -> str:
    """Text of a stranger without control and format characters, which could move the cursor or hide other text."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
