"""``lprime new``, ``check`` and ``submit``: an encoding or a task of your own, from a template to a pull request."""

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, OfSuite, command_line, print_json


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, and its file's: a-z, 0-9 and _.")],
    task: Annotated[bool, typer.Option("--task", help="A task.")] = False,
    wrapper: Annotated[bool, typer.Option("--wrapper", help="An encoding that changes another one.")] = False,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Its title, for the board [default: the name].")] = None,
    author: Annotated[str | None, typer.Option(metavar="TEXT", help="Its authors, separated by commas.")] = None,
    link: Annotated[str | None, typer.Option(metavar="URL", help="Link to its paper or page; https.")] = None,
) -> None:
    """Write a template, NAME.py: a working encoding, wrapper or task to start from."""
    from bench.plugins.new_file import write_new_file

    if task and (wrapper or author or link):
        raise typer.BadParameter("--task has a title only; expected no --wrapper, --author or --link")
    kind = "task" if task else "wrapper" if wrapper else "encoding"
    texts = {"title": title, "authors": author, "link": link}
    path = write_new_file(name, kind, **{key: text for key, text in texts.items() if text is not None})
    print(f"written to {path}; change it, then: {command_line('check', f'{path}(rope)' if wrapper else path)}")
    if not (task or (author and link)):
        print("runs record authors and link of info, so write yours before them")


def check(
    encoding: Annotated[str, typer.Argument(metavar="NAME", help="A file, a name, or the folder of a submission.")],
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
    """Check an encoding, or a task, in a sandbox, in under a minute.

    Exit code 1 if a check failed, 2 if it cannot be loaded or its hooks cannot be called.
    """
    from bench.check import CheckOutcome, check_encoding
    from leaderboard.submission import is_submission, read_submission
    from tasks import printable

    found = read_submission(Path(encoding)) if is_submission(encoding) else None

    def print_finding(finding: CheckOutcome) -> None:
        if finding.status != "not run" and not as_json:
            print("\n".join(map(printable, finding.lines())), flush=True)

    report = check_encoding(found.reference if found else encoding, print_finding, sandbox)
    if as_json:
        print_json(report.model_dump(mode="json"))
        return int(not report.passed)
    if found:
        print("\nunusual in its source:" if report.unusual else "\nnothing unusual in its source")
        for line in report.unusual:
            print(f"      {printable(line)}")
    print(f"\n{printable(report.summary())}")
    return int(not report.passed)


def submit(
    encoding: Annotated[str, typer.Argument(metavar="ENCODING", help="Your file, such as my_encoding.py.")],
    suite: OfSuite,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Parent of the new folder.")] = Path(
        "leaderboard/submissions"
    ),
    licence: Annotated[str, typer.Option(metavar="SPDX", help="Licence of the source.")] = "Apache-2.0",
) -> None:
    """Write your encoding into a folder for a pull request: its source, its description, and the suite."""
    from bench.suites.suite import load_suite
    from leaderboard.submission import write_submission

    place = write_submission(encoding, load_suite(suite), to, licence)
    print(f"written to {place}, under {licence}; rules: leaderboard/RULES.md")
    print(f"maintainers will run: {command_line('check', place)}")
    print(f"                 and: {command_line('run', suite, '--encoding', place, '--sealed')}")
