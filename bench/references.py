"""How an encoding from elsewhere is named: ``my_encoding.py``, ``folder/file.py:Class`` or ``package.module:Class``.

Such a *reference* stands wherever the name of an encoding can, inside of a composition too: ``randomised(my_encoding.py)``,
``my_encoding.py(strength=2.0)``. A path with blanks, brackets, commas, quotes or ``=`` in it can only stand alone.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

CLASS = r"[^\W\d]\w*"
ALONE = re.compile(rf".+\.py(?::{CLASS})?")
WITHIN = re.compile(rf"[^\s(),='\"]+\.py(?::{CLASS})?|{CLASS}(?:\.{CLASS})*:{CLASS}")


def has_reference(text: str) -> bool:
    """Does the name of an encoding lead out of the built-in and installed ones?"""
    return bool(ALONE.fullmatch(text.strip()) or WITHIN.search(text))


def replaced(text: str, change: Callable[[str], str]) -> str:
    """The name of an encoding with every reference in it put through ``change``."""
    if ALONE.fullmatch(text.strip()):
        return change(text.strip())
    return WITHIN.sub(lambda match: change(match.group()), text)


def parts(reference: str) -> tuple[str, str]:
    """File or module, and class; without a class that is empty."""
    place, colon, name = reference.rpartition(":")
    return (place, name) if colon and name.isidentifier() else (reference, "")


def is_file(reference: str) -> bool:
    return parts(reference)[0].endswith(".py")


def absolute(text: str, folder: Path) -> str:
    """The name of an encoding with the paths in it taken from ``folder`` rather than from the current one."""

    def anchored(reference: str) -> str:
        place, name = parts(reference)
        if not is_file(reference):
            return reference
        return os.path.abspath(folder / place) + (f":{name}" if name else "")

    return replaced(text, anchored)
