"""The encoding pages as HTML, next to that of the board: the same markdown, with its figures left to the board's curves."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from urllib.parse import urlencode

from bench.measure.card import Card
from leaderboard.data.file_names import MAX_BYTES, PAGES, page_name
from leaderboard.format import printable

from .encoding_pages import README, Entry, render_encoding_page
from .html_data import MAX_NAME
from .html_template import GENERATOR, content_security_policy, fill_template, markdown_to_html, page_style, web_file

INDEX = "index.html"


def page_address(encoding: str) -> str | None:
    """The path of an encoding's page, relative to the board's; None where the name is too long for a file."""
    name = page_name(encoding)
    return f"{PAGES}/{name}.html" if len(name) <= MAX_BYTES else None


def view_address(board: str, encoding: str) -> str:
    """The board's page with the encoding selected, relative to that page.

    Arguments:
        board: name of the suite.
    """
    return f"{INDEX}#{urlencode({'suite': printable(board), 'select': printable(encoding, MAX_NAME)})}"


def render_html_encoding(encoding: str, suites: Mapping[str, Sequence[Entry]], card: Card) -> str:
    """One page; arguments as in ``render_encoding_page``."""
    curves = iter([f"[Curves, next to those of others](../{view_address(suite, encoding)})" for suite in suites])
    text = re.sub(r"^<picture>.*</picture>$", lambda _: next(curves), render_encoding_page(encoding, suites, card), flags=re.M)
    script = web_file("theme.js")
    return fill_template(
        web_file("encoding.html"),
        {
            "title": escape(printable(encoding, MAX_NAME)),
            "generator": GENERATOR,
            "policy": content_security_policy(script),
            "style": page_style(),
            "script": script,
            "text": markdown_to_html(text.encode(errors="replace").decode(), page_link),  # half a surrogate pair is no text
        },
    )


def page_link(target: str) -> str:
    """The HTML page of a markdown page."""
    return f"../{INDEX}" if target == f"../{README}" else re.sub(r"^([^/:#?]+)\.md$", r"\1.html", target)
