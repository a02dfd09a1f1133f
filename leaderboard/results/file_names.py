"""File names for encodings, whose names may contain brackets, commas and, in plugins, any other character."""

import re
import unicodedata
from collections.abc import Iterable

from bench.text_rules import invisible_character
from tasks import InputError

PAGES, IMAGES = "pages", "images"
"""Subfolders of the published board: encoding pages, and figures by suite."""
SUFFIX = ".jsonl"
MAX_BYTES = 200
"""Limit of a page's name. File systems allow 255, and a file is first written under a longer temporary name."""


def file_name(encoding: str) -> str:
    """File of an encoding's published runs: its name, unchanged, with a suffix.

    Raises:
        InputError: a name that could escape the folder, be hidden, break a terminal, or is too long for a file.
    """
    if not re.fullmatch(r"[^./\\][^/\\]*", encoding) or invisible_character(encoding) or len(page_name(encoding)) > MAX_BYTES:
        raise InputError(
            f"encoding {encoding[:80]!r} cannot be published: its name must be short, without separators of paths and control "
            "characters, and not start with a dot"
        )
    return encoding + SUFFIX


def page_name(encoding: str) -> str:
    """Name of an encoding's page and figures, without suffix: unique, and needs no quoting in a link or a shell.

    ``(`` becomes ``~``, and closing brackets at the end are dropped: ``finetuned(yarn(scale=4.0))`` is
    ``finetuned~yarn~scale=4.0``. Each byte of any character but letters, digits and ``._=,-`` becomes ``+`` and two hexadecimal
    digits.
    """
    balanced = encoding.count("(") == encoding.count(")")  # otherwise dropped brackets could not be recovered
    text = encoding.rstrip(")") if balanced else encoding

    def escaped(match: re.Match[str]) -> str:
        c = match.group()
        return "~" if c == "(" and balanced else "".join(f"+{b:02x}" for b in c.encode(errors="surrogatepass"))

    return re.sub("[^A-Za-z0-9._=,-]", escaped, text)


def check_names(names: Iterable[str]) -> None:
    """Refuse names that ``file_name`` refuses, and pairs that differ only in case or Unicode normalisation.

    Raises:
        InputError: the first such name or pair.
    """
    seen: dict[str, str] = {}
    for name in sorted(names):
        file_name(name)
        other = seen.setdefault(unicodedata.normalize("NFC", name).casefold(), name)
        if other != name:
            raise InputError(
                f"encodings {other!r} and {name!r} cannot both be published: some file systems treat them as one name"
            )
