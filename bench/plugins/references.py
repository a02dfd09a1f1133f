"""Syntax of references to plugins: ``my_encoding.py``, ``folder/file.py:Class`` or ``package.module:Class``.

A reference can be used wherever a name of an encoding can, also inside compositions: ``randomised(my_encoding.py)``,
``my_encoding.py(strength=2.0)``. There, a path with blanks, brackets, commas or ``=`` is quoted: ``randomised('my file.py')``.
"""

import ast
import os
import re
from collections.abc import Callable
from pathlib import Path

CLASS = r"[^\W\d]\w*"
WHOLE = re.compile(rf"[^\n\0]+\.py(?::{CLASS})?")  # no path has a null character
EMBEDDED = re.compile(rf"'([^'\0]+\.py(?::{CLASS})?)'|([^\s(),='\"\0]+\.py(?::{CLASS})?|{CLASS}(?:\.{CLASS})*:{CLASS})")


def map_references(text: str, change: Callable[[str], str]) -> str:
    """Replace every reference in the name of an encoding with ``change(reference)``."""
    if WHOLE.fullmatch(text.strip()):
        return change(text.strip())
    return EMBEDDED.sub(lambda match: change(match[1] or match[2]), text)


def references_in(text: str) -> list[str]:
    """Every reference in the name of an encoding."""
    if WHOLE.fullmatch(text.strip()):
        return [text.strip()]
    return [match[1] or match[2] for match in EMBEDDED.finditer(text)]


def parts(reference: str) -> tuple[str, str]:
    """Split a reference into file or module, and class; the class is empty if not given."""
    place, colon, name = reference.rpartition(":")
    return (place, name) if colon and name.isidentifier() else (reference, "")


def is_file(reference: str) -> bool:
    return parts(reference)[0].endswith(".py")


def absolute(text: str, folder: Path) -> str:
    """Return the name of an encoding with the paths in it made absolute, relative to ``folder``."""

    def absolute_reference(reference: str) -> str:
        place, name = parts(reference)
        if not is_file(reference):
            return reference
        found = os.path.abspath(folder / place) + (f":{name}" if name else "")
        return found if whole or EMBEDDED.fullmatch(found) else f"'{found}'"

    whole = WHOLE.fullmatch(text.strip())
    return map_references(text, absolute_reference)


def encoding_chain(name: str) -> list[str]:
    """The encodings in a name, outermost first: ``["randomised", "rope"]`` of ``randomised(rope(base=1.0))``.

    Raises:
        ValueError: it is not a name.
    """
    try:
        tree = ast.parse(name, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError("not a name") from None
    names = []
    while isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and len(tree.args) <= 1:
        names.append(tree.func.id)
        if not tree.args:
            return names
        tree = tree.args[0]
    if not isinstance(tree, ast.Name):
        raise ValueError("not a name")
    return [*names, tree.id]
