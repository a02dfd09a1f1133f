"""Python source as a text: nothing of it is compiled or run."""

import ast
import re
import unicodedata
import warnings
from collections.abc import Iterator

from bench.imports import imported

from ..names import INVISIBLE

COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
"""Of PEP 263: what Python reads a source as."""
ACROSS = {"\n", "\t"}


def unreadable(content: bytes) -> Iterator[str]:
    """What keeps a reader from seeing what Python would run."""
    try:
        words = content.decode("utf-8")
    except UnicodeDecodeError:
        yield "is not UTF-8 text"
        return
    for line in content.splitlines()[:2]:
        cookie = COOKIE.match(line)
        if cookie and cookie[1].lower().replace(b"_", b"-") not in (b"utf-8", b"utf8"):
            yield f"declares the encoding {cookie[1].decode(errors='replace')!r:.40}; expected UTF-8"
            return
    if unseen := next((c for c in words.replace("\r\n", "\n") if c not in ACROSS and unicodedata.category(c) in INVISIBLE), ""):
        yield f"holds an invisible character (U+{ord(unseen):04X})"
        return
    try:
        tree(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two where it is nested without end
        yield f"is not Python: {type(error).__name__} {error}".rstrip()


def tree(content: bytes) -> ast.Module:
    """As text alone: nothing is compiled, nothing runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(content.decode("utf-8"))


def bound(content: bytes) -> set[str]:
    """Names that a module's own statements give to classes, imports and values."""
    found = set()
    for node in tree(content).body:
        if isinstance(node, ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def imports(path: str, content: bytes) -> set[str]:
    """First parts of all modules that a source imports."""
    package = path.rpartition("/")[0].replace("/", ".")
    return {name.partition(".")[0] for name in imported(content, package)}
