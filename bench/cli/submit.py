"""``lprime submit``: an encoding with its runs, as a folder for a pull request."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(submit)


def submit(
    encoding: Annotated[str, typer.Argument(metavar="ENCODING", help="A file, package.module:Class, or a plugin's name.")],
    suite: Annotated[str, typer.Option(metavar="SUITE", help="Whose runs: all of its tasks and seeds.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where results live.")] = Path("runs"),
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where the new folder goes.")] = Path(
        "leaderboard/submissions"
    ),
    title: Annotated[str, typer.Option(metavar="TEXT", help="Of the paper [default: as in info].")] = "",
    author: Annotated[list[str] | None, typer.Option(metavar="NAME", help="(repeatable) [default: as in info]")] = None,
    paper: Annotated[str, typer.Option(metavar="URL", help="Its link [default: as in info].")] = "",
    licence: Annotated[str, typer.Option(metavar="SPDX", help="Of the source.")] = "Apache-2.0",
    note: Annotated[str, typer.Option(metavar="TEXT", help="What else is to be known.")] = "",
    check: Annotated[
        Path | None, typer.Option("--check", metavar="FILE", help="What lprime check --json said [default: check now].")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a submission of that name.")] = False,
) -> None:
    """Write source, results and check report of your encoding into a new folder, ready for a pull request."""
    from bench.progress import say
    from bench.suite import load_suite
    from leaderboard.submit import About
    from leaderboard.submit import submit as write

    about = About(title, author or (), paper, licence, note)
    place = write(encoding, load_suite(suite), out, to, about, check, replace, say)
    print(f"written to {place}, under {licence}; rules: leaderboard/RULES.md; what maintainers will do: lprime verify {place}")
