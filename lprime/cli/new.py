"""``lprime new``: a template for your own encoding."""

from typing import Annotated

import typer

from .options import command_line


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the encoding and its file: a-z, 0-9 and _.")],
    title: Annotated[str, typer.Option(metavar="TEXT", help="Its title, for the board [default: the name].")] = "",
    author: Annotated[str, typer.Option(metavar="TEXT", help="Its authors, separated by commas.")] = "",
    link: Annotated[str, typer.Option(metavar="URL", help="Link to its paper or page; https.")] = "",
) -> None:
    """Write a template, NAME.py: a working encoding to start from."""
    from bench.plugins.new_file import default_title, write_new_encoding
    from bench.text_rules import TEMPLATE

    path = write_new_encoding(name, title=title, authors=author, link=link)
    texts = (("title", title or default_title(name) != TEMPLATE["title"]), ("authors", author), ("link", link))
    missing = [key for key, text in texts if not text]
    print(f"written to {path}; change it, then: {command_line('check', path)}")
    if missing:
        print(f"runs record its texts, so replace the {' and the '.join(missing)} in info before them")
