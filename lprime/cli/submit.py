"""``lprime submit``: write an encoding's source and description into a folder for a pull request."""

from pathlib import Path
from typing import Annotated

import typer

from .options import OfSuite, command_line


def submit(
    encoding: Annotated[str, typer.Argument(metavar="ENCODING", help="Your file, such as my_encoding.py.")],
    suite: OfSuite,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Parent of the new folder.")] = Path(
        "leaderboard/submissions"
    ),
    author: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="An author (repeatable) [default: as in info].")
    ] = None,
    licence: Annotated[str, typer.Option(metavar="SPDX", help="Licence of the source.")] = "Apache-2.0",
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing submission.")] = False,
) -> None:
    """Write your encoding into a folder for a pull request: its source, its description, and the suite."""
    from bench.suites.suite import load_suite
    from leaderboard.submission import write_submission

    place = write_submission(encoding, load_suite(suite), to, author or (), licence, replace)
    print(f"written to {place}, under {licence}; rules: leaderboard/RULES.md")
    print(f"maintainers will run: {command_line('check', place)}")
    print(f"                 and: {command_line('run', suite, '--encoding', place, '--sealed')}")
