"""``lprime check``: is it an encoding, and an honest one?"""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(check)


def check(
    encoding: Annotated[str, typer.Argument(metavar="ENCODING", help="A file, package.module:Class, or a name.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as a JSON object.")] = False,
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write the report there too.")] = None,
    time_limit: Annotated[float, typer.Option(metavar="S", help="Seconds for all checks together.")] = 300,
    memory_limit: Annotated[float, typer.Option(metavar="GIB", help="Memory that they may take.")] = 4,
) -> int:
    """Check an encoding in a process of its own: exit code 0 if all is well, 1 if a check failed. Under a minute."""
    from bench.check import check as run_checks
    from bench.files import write_atomic
    from tasks import InputError

    for name, value in (("--time-limit", time_limit), ("--memory-limit", memory_limit)):
        if not 0 < value < float("inf"):
            raise InputError(f"{name} must be more than 0, got {value}")

    def tell(finding) -> None:
        if not as_json:
            print("\n".join(finding.lines()), flush=True)

    report = run_checks(encoding, time_limit, memory_limit, tell=tell)
    if markdown is not None:
        write_atomic(markdown, report.markdown())
    print(report.model_dump_json(indent=1) if as_json else f"\n{report.summary()}")
    return 0 if report.passed else 1
