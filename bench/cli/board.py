"""``lprime board``: results become a leaderboard."""

from pathlib import Path
from typing import Annotated

import typer

from .publish import To
from .results import read_grids


def register(app: typer.Typer) -> None:
    app.command()(board)


def board(
    suite: Annotated[str | None, typer.Argument(metavar="[SUITE]", help="One suite; by default all that have results.")] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where results live.")] = Path("runs"),
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the published board is what its results give.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="DIR", help="Write DIR/index.html instead: one page to sort, filter and compare on."),
    ] = None,
    published: Annotated[
        bool,
        typer.Option("--published", help="Beside the published results, with (local) behind yours; with --html, those alone."),
    ] = False,
    to: To = Path("leaderboard"),
) -> None:
    """Write the board of a suite in markdown with its pictures, or all boards as one HTML page that needs no network."""
    from tasks import InputError

    if html is not None:
        if check:
            raise InputError("expected --check or --html, got both")
        from leaderboard.page import write as write_page

        print(f"written to {write_page(read_grids([suite] if suite else None, to if published else out, published), html)}")
        return
    if check:
        if published:
            raise InputError("expected --check or --published, got both")
        from leaderboard.published import check as check_published

        print(check_published(to))
        return
    from leaderboard.board import write

    for name in [suite] if suite else suites_with_results(out):
        path = write(name, out, to if published else None)
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
