"""``lprime compare``: two encodings side by side."""

from typing import Annotated

import typer

from .results import Out, Published, read_grids


def register(app: typer.Typer) -> None:
    app.command()(compare)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="An encoding that has results.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    suite: Annotated[str, typer.Option(metavar="SUITE", help="A suite's name, or the path of its YAML file.")] = "small",
    out: Out = None,
    published: Published = False,
) -> None:
    """Two encodings side by side: accuracy by length, intervals, cost, and whether the runs tell them apart."""
    (grids,) = read_grids([suite], out, published).values()

    from rich.console import Console

    from leaderboard.compare import compare as compared
    from leaderboard.compare_text import show

    show(compared(grids, a, b), Console())
