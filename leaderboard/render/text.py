"""Text of strangers, such as names of encodings, made safe for markdown, tables and terminals."""

import re

import tasks
from bench.text_rules import LINK

STRUCTURAL = re.compile(r"""[\\`*\[\]<>#|~&@$"]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.""")
"""Characters that can start a structure of markdown or HTML; an underscore inside a word starts none."""


def printable(text: str, limit: int = 200) -> str:
    """One line of visible text, see ``tasks.printable``; long text is cut."""
    shown = " ".join(map(tasks.printable, text.split())) or "(blank)"
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def markdown(text: str) -> str:
    """Text that markdown shows as it is."""
    return STRUCTURAL.sub(lambda found: f"\\{found.group()}", printable(str(text), 2000))


def code(text: str) -> str:
    """Text as code, also within a table."""
    shown = printable(text).replace("|", "\\|")
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", shown)), default=0))
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def safe_link(text: str) -> str:
    """A link that cannot end the structure around it; empty if it is another."""
    return text if LINK.fullmatch(text) else ""
