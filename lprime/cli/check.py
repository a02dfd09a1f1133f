"""``lprime check``: check an encoding against the rules."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from .completion import complete_encoding
from .options import Json, Quiet, check_positive, finding_printer, print_report, printable


def check(
    encoding: Annotated[
        str,
        typer.Argument(
            metavar="ENCODING",
            help="A file, a name, or the folder of a submission.",
            autocompletion=complete_encoding,
        ),
    ],
    as_json: Json = False,
    quiet: Quiet = False,
    time_limit: Annotated[
        float, typer.Option(metavar="S", help="Seconds for the checks of hooks, and for each process of the sealed run.")
    ] = 300,
    memory_limit: Annotated[float, typer.Option(metavar="GIB", help="Memory for the checks.")] = 4,
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
    from bench.check import check_encoding
    from bench.check.unusual import unusual_lines
    from leaderboard.submission.folder import is_submission, read_submission

    found = read_submission(Path(encoding)) if is_submission(encoding) else None
    check_positive("--time-limit", time_limit)
    check_positive("--memory-limit", memory_limit)
    report = check_encoding(
        found.reference if found else encoding,
        time_limit,
        memory_limit,
        on_finding=finding_printer(as_json, quiet),
        sandbox=sandbox,
        say=lambda text: print(text, file=sys.stderr),
    )
    if found:
        report = report.model_copy(update={"unusual": unusual_lines(found.sources)})
    if found and not as_json:
        print(f"\n{'unusual' if report.unusual else 'nothing unusual'} in its source:")
        for line in report.unusual:
            print(f"      {printable(line)}")
    return print_report(report, as_json, quiet)
