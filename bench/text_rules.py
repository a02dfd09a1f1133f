"""Rules for the texts and the source of encodings.

Fault functions return the fault of a text, or None. ``lprime check`` applies them before the runs: ``info`` is part of a
plugin's source hash, so correcting a title afterwards would require all runs again.
"""

import ast
import re
from collections.abc import Iterator, Mapping

from tasks import printable

LINK = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[A-Za-z0-9._~/?=%&#:;+,@-]*)?")
TEMPLATE = {"title": "My encoding", "authors": "Your Name", "link": "https://example.org"}
"""Texts of the template of ``lprime new``, which nobody's encoding has."""
LONG_LINE, LONG_TEXT, MANY_BYTES, MANY_NUMBERS = 128, 80, 20_000, 300
USUAL = re.compile(
    r"(__future__|abc|bench|collections|dataclasses|functools|itertools|jaxtyping|lprime|math|numpy|torch|typing)(\.|$)"
)
"""What encodings import."""
UNUSUAL = {
    "an escaped character": re.compile(r"\\[xuUN0]"),
    "a long text": re.compile(rf"""(["'])[^"'\s]{{{LONG_TEXT},}}\1"""),
    "compares a task's length": re.compile(
        r"(train|longest|announced)_(length|tokens)\s*(==|!=|in\b)|(==|!=)\s*[\w.]*(train|longest|announced)_"
    ),
    "text that is run as code": re.compile(r"(?<![.\w])(__import__|eval|exec)\("),
}
"""What a maintainer should look at in a line → how it looks."""


def invisible_character(text: str, allowed: str = "") -> str:
    """The first control or invisible character, or an empty string."""
    return next((c for c in text if c not in allowed and printable(c) != c), "")


def plain_text_fault(text: str, max_length: int = 200) -> str | None:
    """The fault of a text that is not one short line, or is the template's text."""
    if not text.strip() or text != " ".join(text.split()) or invisible_character(text):
        return "is not one line of visible words separated by single spaces"
    if len(text) > max_length:
        return f"has {len(text):,} characters, more than {max_length:,}"
    return "is still that of the template" if text in TEMPLATE.values() else None


def link_fault(text: str) -> str | None:
    """The fault of a link."""
    if text.rstrip("/") == TEMPLATE["link"]:
        return "is still that of the template"
    return None if len(text) <= 2000 and LINK.fullmatch(text) else "is not an https link of plain characters"


def unusual_lines(sources: Mapping[str, bytes]) -> Iterator[str]:
    """What a maintainer should look at in the source of an encoding, as ``my_encoding.py, line 12: …``.

    No rule about source text keeps out code that is made to cheat; a reader does.

    Arguments:
        sources: path → content.
    """
    for path, content in sources.items():
        text = content.decode("utf-8", "replace")
        if len(content) > MANY_BYTES:
            yield f"{path}: {len(content):,} bytes"
        if (numbers := len(re.findall(r"\b\d", text))) > MANY_NUMBERS:
            yield f"{path}: {numbers:,} numbers"
        yield from (f"{path}: imports {name}" for name in imported(text) if not USUAL.match(name))
        for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
            if len(line) > LONG_LINE:
                yield f"{path}, line {number}: {len(line)} characters"
            if character := invisible_character(line, allowed="\t"):
                yield f"{path}, line {number}: an invisible character (U+{ord(character):04X})"
            yield from (f"{path}, line {number}: {what}" for what, pattern in UNUSUAL.items() if pattern.search(line))


def imported(text: str) -> list[str]:
    """Modules that a source imports; a module beside it begins with a dot."""
    try:
        nodes = [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError):  # such as a template
        return []
    found = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return found + ["." * node.level + (node.module or "") for node in nodes if isinstance(node, ast.ImportFrom)]
