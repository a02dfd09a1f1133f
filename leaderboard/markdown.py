"""Markdown that says what it was given, whatever it was given: escaping, links, numbers and tables."""

import re
import unicodedata
from collections.abc import Sequence
from urllib.parse import quote, urlsplit

from tabulate import tabulate

from .statistics import DIGITS

STRUCTURAL = re.compile(r"""[\\`*\[\]<>#|~&@$"]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.""")
"""Characters that could start a structure: code, emphasis, link, HTML, heading, cell, entity, mention, formula, bare URL.

An underscore inside a word starts nothing and is left alone, so that ``key_retrieval`` can be read and searched.
"""

REFERABLE = re.compile(r"(?=.{1,40}\Z)[a-z0-9][a-z0-9.+-]*(_[a-z0-9.+-]+)*")
"""Names that can label a link as they are. Lower case only, because labels do not tell cases apart."""


def printable(text: str, limit: int = 80) -> str:
    """One line that shows something: blanks for white space, U+FFFD for control and format characters and what no text holds
    (XML forbids some of it), cut with an ``…``."""
    shown = "".join(" " if c.isspace() else "�" if unshown(c) else c for c in text)
    shown = " ".join(shown.split()) or "(blank)"
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def unshown(character: str) -> bool:
    """Whether it is a control or format character, half a surrogate pair, or one of Unicode's 66 noncharacters."""
    code = ord(character)
    return unicodedata.category(character) in ("Cc", "Cf", "Cs") or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def escape(text: str, limit: int = 80) -> str:
    """``printable`` text that no markdown renderer takes for structure, in or out of a table.

    As numeric entities rather than backslashes: CommonMark never reads structure from an entity, and a table's ``|`` is cut
    before backslashes are looked at by some renderers.
    """
    return STRUCTURAL.sub(lambda match: f"&#{ord(match[0])};", printable(text, limit))


def code(text: str) -> str:
    """A plain name as code; anything else escaped, since nothing can be escaped inside of code."""
    return f"`{text}`" if re.fullmatch(r"[A-Za-z0-9_.+/-]{1,80}", text) else escape(text)


def address(target: str) -> str | None:
    """A web address that nothing in it can end early; None for what is no web address (``javascript:`` and the like)."""
    try:
        web = urlsplit(target).scheme in ("http", "https")
    except ValueError:
        web = False
    # quote() leaves no blank, bracket, quotation mark, pipe, backslash or control character.
    return quote(target, safe="/:?=#%&;+,@", errors="replace").replace("&", "&amp;") if web and len(target) <= 2000 else None


def link(text: str, target: str) -> str:
    """A link over escaped text; only the text where the target is no web address."""
    found = address(target)
    return f"[{escape(text)}]({found})" if found else escape(text)


def reference(name: str) -> str:
    """A name linked by reference, which keeps tables narrow enough to read as text; defined by ``definition``."""
    return f"[{name}]" if REFERABLE.fullmatch(name) else escape(name)


def definition(name: str, target: str, title: str) -> str | None:
    """What ``reference(name)`` points to; None where it is no link."""
    found = address(target)
    return f'[{name}]: {found} "{escape(title, 200)}"' if found and REFERABLE.fullmatch(name) else None


def image(alt: str, file: str) -> str:
    return f"![{escape(alt)}]({quote(file)})"


def picture(alt: str, light: str, dark: str) -> str:
    """A picture that follows the reader's theme, as GitHub and browsers do: HTML that may stand in a paragraph or a cell.

    Arguments:
        light, dark: files, seen from the text.
    """
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{quote(dark)}">'
    return f'<picture>{source}<img alt="{escape(alt, 200)}" src="{quote(light)}"></picture>'


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A GitHub table of ready markdown cells; the first ``left`` columns to the left, the others to the right.

    ``pipe`` is tabulate's name for GitHub's table *with* its alignment row; its ``github`` leaves alignment out.
    """
    align = ["left"] * left + ["right"] * (len(header) - left)
    return tabulate(rows, headers=list(header), tablefmt="pipe", colalign=align if rows else None, disable_numparse=True)


def share(value: float) -> str:
    """A number in 0 … 1 to the printed precision, without its leading zero: ``.423``, ``1.000``."""
    return f"{value:.{DIGITS}f}".removeprefix("0")


def times(value: float) -> str:
    """A factor with up to two decimals: ``1.5``, ``2``, ``1.17``."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def numbers(values: Sequence[int]) -> str:
    """``seed 3`` or ``seeds 0, 1, 2``."""
    return f"seed{'s' if len(values) != 1 else ''} {', '.join(map(str, values))}"
