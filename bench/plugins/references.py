"""Syntax of references to encodings in files: ``my_encoding.py`` or ``folder/file.py:Class``.

A reference can be used wherever a name of an encoding can, also inside compositions: ``randomised(my_encoding.py)``,
``my_encoding.py(strength=2.0)``. There, a path with blanks, brackets, commas or ``=`` is quoted: ``randomised('my file.py')``.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

CLASS = r"[^\W\d]\w*"
WHOLE = re.compile(rf"[^\n\0]+\.py(?::{CLASS})?")  # no path has a null character
QUOTED = "|".join(rf"{quote}([^{quote}\0]+\.py(?::{CLASS})?){quote}" for quote in "'\"")
EMBEDDED = re.compile(rf"{QUOTED}|([^\s(),='\"\0]+\.py(?::{CLASS})?)")


def map_references(text: str, change: Callable[[str], str]) -> str:
    """Replace every reference in the name of an encoding with ``change(reference)``."""
    if WHOLE.fullmatch(text.strip()):
        return change(text.strip())
    return EMBEDDED.sub(lambda match: change(match[1] or match[2] or match[3]), text)


def references_in(text: str) -> list[str]:
    """Every reference in the name of an encoding."""
    found: list[str] = []
    map_references(text, lambda reference: found.append(reference) or reference)  # type: ignore[func-returns-value]
    return found


def parts(reference: str) -> tuple[str, str]:
    """Split a reference into file and class; the class is empty if not given."""
    file, _, name = reference.rpartition(".py")
    return f"{file}.py", name.removeprefix(":")


def absolute(text: str, folder: Path) -> str:
    """The name of an encoding with the paths in it made absolute, relative to ``folder``."""
    whole = WHOLE.fullmatch(text.strip())

    def absolute_reference(reference: str) -> str:
        found = os.path.abspath(folder / reference)
        quote = '"' if "'" in found else "'"
        return found if whole or EMBEDDED.fullmatch(found) else f"{quote}{found}{quote}"

    return map_references(text, absolute_reference)
