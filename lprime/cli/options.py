"""Arguments and options that several commands share, and checks of their values."""

import os
from pathlib import Path
from typing import Annotated

import typer

Suite = Annotated[str, typer.Argument(metavar="SUITE", help="A suite's name, or the path of its YAML file.")]
Vary = Annotated[
    bool, typer.Option("--vary", help="Instead of the suite itself, all its conditions (see bench/suites/vary.py).")
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the runs.")]
RunsOrPublished = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder of the results [default: runs; with --published, leaderboard/published].",
        show_default=False,
    ),
]
Published = Annotated[bool, typer.Option("--published", help="Read the published results instead of your runs.")]
To = Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder of the published board: results, pages and figures.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Markdown = Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Also write the report to a file.")]


def check_positive(option: str, value: float, most: float = float("inf")) -> None:
    """Refuse a number that is not above 0, not finite, or above ``most``."""
    from tasks import InputError

    if not 0 < value <= most or value == float("inf"):
        bound = f" and at most {most:g}" if most < float("inf") else ""
        raise InputError(f"{option} must be more than 0{bound}, got {value:g}")


def runs_folder(out: Path) -> Path:
    """``--out`` as an absolute path, which need not exist.

    Raises:
        InputError: it is a file.
    """
    from tasks import InputError

    out = out.expanduser().resolve()
    if os.path.exists(out) and not os.path.isdir(out):
        raise InputError(f"--out {out} is a file; expected the folder of the runs, such as runs")
    return out
