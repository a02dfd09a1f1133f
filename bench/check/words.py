"""Words that mean no more than they say: what a submission may call itself. ``declared.py`` and ``leaderboard/verify`` ask it.

A plugin's ``info`` is part of its source hash, so whoever mends a title has to make all runs again: better told before them.
"""

import re
import unicodedata
from typing import Any

NAME = re.compile(r"[A-Za-z0-9_(),=.'+-]{1,200}")
LINK = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[A-Za-z0-9._~/?=%&#:;+,@-]*)?")
WORD = re.compile(r"[A-Za-z0-9_]{1,100}")
LONGEST = 200
INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of control and format characters, lone surrogates, line and paragraph separators."""
STRUCTURAL = re.compile(r"""[\\`*\[\]<>#|~&@$"]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.""")
"""Characters that could start a structure of markdown or HTML; an underscore inside a word starts none."""


def plain(text: str, most: int = LONGEST) -> str | None:
    """What is wrong with a text that is to be plain words, if anything is."""
    if not text.strip() or text != " ".join(text.split()):
        return "is not one line of words, blanks single"
    if len(text) > most:
        return f"has {len(text):,} characters, more than {most:,}"
    if any(unicodedata.category(c) in INVISIBLE for c in text):
        return "holds a control or invisible character"
    if any(c in "/\\" for c in text):
        return "holds a path separator"
    if found := STRUCTURAL.search(text):
        return f"holds markdown or HTML ({found[0]})"
    return None


def matches(pattern: re.Pattern, kind: str, text: str) -> str | None:
    return None if len(text) <= 2000 and pattern.fullmatch(text) else f"is no {kind}"


def link(text: str) -> str | None:
    return matches(LINK, "https link of plain characters", text)


def settings(found: Any, depth: int = 4) -> str | None:
    """Numbers, True, False and words by name; those of a wrapped encoding under its name."""
    if depth and isinstance(found, dict) and len(found) <= 100:
        inner = all(
            settings(value, depth - 1) is None if isinstance(value, dict) else is_setting(value) for value in found.values()
        )
        if inner and all(NAME.fullmatch(key) for key in found):
            return None
    return "are no settings: numbers, True, False or words"


def is_setting(value: Any) -> bool:
    if isinstance(value, str):
        return bool(WORD.fullmatch(value))
    return isinstance(value, (bool, int, float)) and abs(value) < 2**63
