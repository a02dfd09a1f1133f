"""Files of the published board. Names of encodings may contain brackets, commas and, in plugins, any other character."""

import re
from pathlib import Path
from urllib.parse import quote

from bench.files import write_atomic
from bench.text_rules import invisible_character
from tasks import InputError

RESULTS, PAGES, IMAGES = "results", "pages", "images"
"""Subfolders of the published board: the store, encoding pages, and figures by suite."""
LINES = "lines.json"
"""Each encoding's line of the first suite, for a reader without pandas."""
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
    quoted = quote(encoding, "=,", errors="surrogatepass").replace("~", "%7E").replace("%", "+")
    if encoding.count("(") != encoding.count(")"):  # dropped brackets could not be recovered
        return quoted
    return re.sub(r"(\+29)+$", "", quoted).replace("+28", "~")


def write_if_changed(path: Path, content: bytes | None) -> bool:
    """Write a file unless it already has that content; None deletes it. Returns whether anything changed.

    Raises:
        InputError: it cannot be written.
    """
    if content == (path.read_bytes() if path.is_file() else None):
        return False
    if content is None:
        path.unlink()
    else:
        write_atomic(path, content)
    return True
