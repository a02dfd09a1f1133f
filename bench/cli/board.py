"""``lprime board``: results become a leaderboard."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(board)


def board(
    suite: Annotated[str | None, typer.Argument(metavar="[SUITE]", help="One suite; by default all that have results.")] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where results live.")] = Path("runs"),
) -> None:
    """Write the board of a suite in markdown, with a picture of accuracy by length for each task."""
    from leaderboard.board import write

    for name in [suite] if suite else suites_with_results(out):
        path = write(name, out)
        print(path.read_text(encoding="utf-8"))
        print(f"written to {path}")


def suites_with_results(out: Path) -> list[str]:
    """The folders under ``out`` that hold a result, whether their suite is a shipped one or not.

    Raises:
        InputError: there is none.
    """
    from tasks import InputError

    found = sorted({path.parts[-5] for path in out.glob("*/*/*/seed-*/result.json")})
    if not found:
        raise InputError(
            f"no results under {out}; expected <suite>/<task>/<encoding>/seed-<n>/result.json as lprime run writes them"
        )
    return found
