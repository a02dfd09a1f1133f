"""``lprime submit``: write an encoding and its runs into a folder for a pull request."""

from pathlib import Path
from typing import Annotated

import typer

from .options import OfSuite, Out, command_line


def submit(
    encoding: Annotated[str, typer.Argument(metavar="ENCODING", help="A file, package.module:Class, or a plugin's name.")],
    suite: OfSuite,
    out: Out = Path("runs"),
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Parent of the new folder.")] = Path(
        "leaderboard/submissions"
    ),
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the paper [default: as in info].")] = "",
    author: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="An author (repeatable) [default: as in info].")
    ] = None,
    paper: Annotated[str, typer.Option(metavar="URL", help="Link to the paper [default: as in info].")] = "",
    licence: Annotated[str, typer.Option(metavar="SPDX", help="Licence of the source.")] = "Apache-2.0",
    note: Annotated[str, typer.Option(metavar="TEXT", help="A remark for readers.")] = "",
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="Output of lprime check --json [default: check now].")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing submission.")] = False,
) -> None:
    """Write your encoding into a folder for a pull request.

    The folder has its source, its runs of all tasks and seeds of the suite, and its check report.
    """
    from bench.runs.progress import say
    from bench.suites.suite import load_suite
    from leaderboard.submission.submit import About, write_submission

    about, loaded = About(title, author or (), paper, licence, note), load_suite(suite)
    place = write_submission(encoding, loaded, out, to, about, check, replace, say)
    verify = command_line("verify", place, *([] if loaded.name == suite else ["--suite", suite]))
    print(f"written to {place}, under {licence}; rules: leaderboard/RULES.md; maintainers will run: {verify}")
