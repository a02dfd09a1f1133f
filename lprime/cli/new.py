"""``lprime new``: a template for your own encoding."""

from typing import Annotated

import typer

from .options import command_line


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the encoding and its file: a-z, 0-9 and _.")],
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Its title, for the board [default: the name].")] = None,
    author: Annotated[str | None, typer.Option(metavar="TEXT", help="Its authors, separated by commas.")] = None,
    link: Annotated[str | None, typer.Option(metavar="URL", help="Link to its paper or page; https.")] = None,
) -> None:
    """Write a template, NAME.py: a working encoding to start from."""
    from bench.plugins.new_file import write_new_encoding

    texts = {"title": title, "authors": author, "link": link}
    path = write_new_encoding(name, **{key: text for key, text in texts.items() if text is not None})
    print(f"written to {path}; change it, then: {command_line('check', path)}")
    if not (author and link):
        print("runs record authors and link of info, so write yours before them")
