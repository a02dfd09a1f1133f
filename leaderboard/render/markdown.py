"""Markdown from text that may hold anything: escaping, links, pictures and tables."""

import html
import re
from collections.abc import Callable, Sequence
from urllib.parse import quote, urlsplit

from tabulate import tabulate

from bench.text_rules import STRUCTURAL
from leaderboard.format import printable


def escape(text: str, limit: int = 80) -> str:
    """``printable`` text that no markdown renderer takes for structure, inside or outside a table.

    Uses numeric entities rather than backslashes: CommonMark never reads structure from an entity, and some renderers split
    table rows at ``|`` before they handle backslashes.
    """
    return STRUCTURAL.sub(lambda match: f"&#{ord(match[0])};", printable(text, limit))


def code(text: str) -> str:
    """A plain name as code; anything else escaped, because escapes do not work inside code."""
    return f"`{text}`" if re.fullmatch(r"[A-Za-z0-9_.+/-]{1,80}", text) else escape(text)


def web_address(target: str) -> str | None:
    """An http(s) address, quoted so that nothing in it ends it early; None for anything else (``javascript:`` and the like)."""
    try:
        is_web = urlsplit(target).scheme in ("http", "https")
    except ValueError:
        is_web = False
    # quote() leaves no blank, bracket, quotation mark, pipe, backslash or control character.
    quoted = quote(target, safe="/:?=#%&;+,@", errors="replace").replace("&", "&amp;")
    return quoted if is_web and len(target) <= 2000 else None


def link(text: str, target: str) -> str:
    """A link with escaped text; the text alone where the target is no web address."""
    address = web_address(target)
    return f"[{escape(text, 200)}]({address})" if address else escape(text, 200)


def linked_name(name: str, address: str | None) -> str:
    """An encoding's name, linked to an address if there is one. In a narrow table it may be broken after any of ``(,_=``."""
    shown = re.sub(r"(?<=[(,_=])(?=\w)", "<wbr>", escape(name, 120))
    return f"[{shown}]({address})" if address else shown


def themed_picture(alt: str, path: Callable[[str], str]) -> str:
    """A picture that follows the reader's light or dark theme: HTML that GitHub and browsers accept in a paragraph or cell.

    Arguments:
        path: look, ``light`` or ``dark`` → path of the picture, relative to the text.
    """
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{quote(path("dark"))}">'
    return f'<picture>{source}<img alt="{escape(alt, 200)}" src="{quote(path("light"))}"></picture>'


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A GitHub table of cells that are markdown already; the first ``left`` columns are left-aligned, the others right-aligned.

    ``pipe`` is tabulate's name for GitHub's table *with* its alignment row; its ``github`` leaves alignment out.
    """
    align = ["left"] * left + ["right"] * (len(header) - left)
    return tabulate(rows, headers=list(header), tablefmt="pipe", colalign=align if rows else None, disable_numparse=True)


def folded(title: str, body: str) -> str:
    """Markdown that is shown when its title is clicked."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"


def heading_anchor(heading: str) -> str:
    """A heading's anchor on GitHub: lower case, blanks to hyphens, no punctuation."""
    return re.sub(r"[^\w\- ]", "", html.unescape(heading).lower()).replace(" ", "-")
