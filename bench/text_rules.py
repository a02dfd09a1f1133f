"""Validation of texts in submissions.

Each function returns the fault of a text, or None. ``lprime check`` applies these rules too, before the runs: ``info`` is
part of a plugin's source hash, so correcting a title afterwards would require all runs again.
"""

import re
import unicodedata

LINK = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[A-Za-z0-9._~/?=%&#:;+,@-]*)?")
TEMPLATE = {"title": "My encoding", "authors": "Your Name", "link": "https://example.org"}
"""Texts of the template of ``lprime new``, which nobody's encoding has."""
INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of control and format characters, lone surrogates, line and paragraph separators."""
BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters of other categories that show nothing: Unicode's Default_Ignorable_Code_Point, and the blank of Braille."""
STRUCTURAL = re.compile(r"""[\\`*\[\]<>#|~&@$"]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.""")
"""Characters that can start a structure of markdown or HTML; an underscore inside a word starts none."""


def invisible_character(text: str, allowed: str = "") -> str:
    """The first control or invisible character, or an empty string."""
    return next((c for c in text if c not in allowed and (unicodedata.category(c) in INVISIBLE or BLANK.match(c))), "")


def plain_text_fault(text: str, max_length: int = 200, allowed: str = "") -> str | None:
    """The fault of a text in plain words.

    Arguments:
        allowed: path separators that are allowed, such as the slash of ``k = L/2``.
    """
    if not text.strip() or text != " ".join(text.split()):
        return "is not one line of words separated by single spaces"
    if len(text) > max_length:
        return f"has {len(text):,} characters, more than {max_length:,}"
    if invisible_character(text):
        return "contains a control or invisible character"
    if any(c in "/\\" and c not in allowed for c in text):
        return "contains a path separator"
    if match := STRUCTURAL.search(text):
        return f"contains markdown or HTML ({match[0]})"
    return "is still that of the template" if text in TEMPLATE.values() else None


def link_fault(text: str) -> str | None:
    """The fault of a link."""
    if text.rstrip("/") == TEMPLATE["link"]:
        return "is still that of the template"
    return None if len(text) <= 2000 and LINK.fullmatch(text) else "is not an https link of plain characters"
