"""``lprime check``: check an encoding against the rules."""

from typing import Annotated

import typer

from .options import Json, Markdown, check_positive


def check(
    encoding: Annotated[str, typer.Argument(metavar="ENCODING", help="A file, package.module:Class, or a name.")],
    as_json: Json = False,
    markdown: Markdown = None,
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds for all checks together.")] = 300,
    memory_limit: Annotated[float, typer.Option(metavar="GIB", help="Memory for the checks.")] = 4,
) -> int:
    """Check an encoding in a separate process, in under a minute.

    Exit code 1 if a check failed.
    """
    from bench.check import check_encoding
    from bench.files import write_atomic

    check_positive("--time-limit", time_limit)
    check_positive("--memory-limit", memory_limit)

    def print_finding(finding) -> None:
        if not as_json:
            print("\n".join(finding.lines()), flush=True)

    report = check_encoding(encoding, time_limit, memory_limit, on_finding=print_finding)
    if markdown is not None:
        write_atomic(markdown, report.markdown())
    print(report.model_dump_json(indent=1) if as_json else f"\n{report.summary()}")
    return 0 if report.passed else 1
