"""``lprime new``: a template for your own encoding."""

from typing import Annotated

import typer


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the encoding and its file: a-z, 0-9 and _.")],
) -> None:
    """Write a template, NAME.py: a working encoding to start from."""
    from bench.plugins.new_file import write_new_encoding

    path = write_new_encoding(name)
    print(f"written to {path}; change it, then: lprime check {path}")
