"""File names for encodings, whose own names may hold brackets, commas and whatever else a plugin thought of."""

import re
import unicodedata
from collections.abc import Iterable

from tasks import InputError

SUFFIX = ".jsonl"
LONGEST = 200
"""Bytes of a file name: file systems take 255, and a file is written under a longer name before it gets its own."""
INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Unicode categories of control and format characters, lone surrogates, line and paragraph separators."""


def file_name(encoding: str) -> str:
    """Of an encoding's published runs: its name as it is.

    Raises:
        InputError: a name that could leave the folder, hide in it, break a terminal, or is too long for a file.
    """
    faults = {
        "is empty": not encoding.strip(),
        "starts with a dot": encoding.startswith("."),
        "holds a path separator": any(c in encoding for c in "/\\"),
        "holds a control character": any(unicodedata.category(c) in INVISIBLE for c in encoding),
        "is too long": len(page_name(encoding)) > LONGEST,
    }
    for fault, found in faults.items():
        if found:
            shown = encoding if len(encoding) <= 80 else encoding[:79] + "…"
            raise InputError(f"encoding {shown!r} cannot be published: its name {fault}")
    return encoding + SUFFIX


def page_name(encoding: str) -> str:
    """Of an encoding's page and pictures, without suffix: needs no quoting in a link or a shell, and no two names share one.

    ``(`` becomes ``~``, and the brackets that close a name at its end are left out: ``finetuned(yarn(scale=4.0))`` is
    ``finetuned~yarn~scale=4.0``. What is no letter, digit or one of ``._=,-`` becomes ``+`` and two hexadecimal digits a byte.
    """
    balanced = encoding.count("(") == encoding.count(")")  # what is left out can then be told from what is there
    text = encoding.rstrip(")") if balanced else encoding
    return "".join(
        "~" if c == "(" and balanced else c if re.fullmatch("[A-Za-z0-9._=,-]", c) else "".join(f"+{b:02x}" for b in utf8(c))
        for c in text
    )


def utf8(character: str) -> bytes:
    return character.encode(errors="surrogatepass")


def check_names(names: Iterable[str]) -> None:
    """Refuse names that cannot be files', and two that would share one where case or the spelling of an accent does not count.

    Raises:
        InputError: the first such name, or two.
    """
    seen: dict[str, str] = {}
    for name in sorted(names):
        file_name(name)
        other = seen.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
        if other != name:
            raise InputError(f"encodings {other!r} and {name!r} cannot both be published: some file systems hold them for one")
