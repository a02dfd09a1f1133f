"""``lprime compare``: compare two encodings."""

from typing import Annotated

import typer

from .options import Published, RunsOrPublished
from .read_results import read_grids


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="An encoding with results.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    suite: Annotated[str, typer.Option(metavar="SUITE", help="A suite's name, or the path of its YAML file.")] = "small",
    out: RunsOrPublished = None,
    published: Published = False,
) -> None:
    """Compare the results of two encodings.

    Shows accuracy by length, intervals, cost, and whether the board's test separates the two.
    """
    (grids,) = read_grids([suite], out, published).values()

    from rich.console import Console

    from leaderboard.render.compare_text import print_comparison
    from leaderboard.stats.compare import compare_encodings

    print_comparison(compare_encodings(grids, a, b), Console())
