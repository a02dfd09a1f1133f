"""``lprime new``: a file to start an encoding of one's own from."""

from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(new)


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the encoding, and of its file: a-z, 0-9 and _.")],
) -> None:
    """Write NAME.py in this folder: an encoding that works, with its hooks explained, to be made into yours."""
    from bench.new import write

    path = write(name)
    print(f"written to {path}; change it, then: lprime check {path}")
