"""Python source as a text, none of it compiled or run: what a submission's may hold. ``declared.py`` and ``leaderboard/verify``
ask it."""

import ast
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterator, Mapping

from tasks import InputError

from .. import encodings
from ..encodings import Encoding
from ..imports import OURS, imported
from .words import INVISIBLE

LIBRARIES = ("torch", "numpy", "jaxtyping")
"""What an encoding may import beside Python's own, and beside ``bench`` and ``tasks``."""
IMPORTS = f"its own files, Python's, bench, tasks, {', '.join(LIBRARIES)}"
COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
"""Of PEP 263: what Python reads a source as."""
ACROSS = {"\n", "\t"}


def source_faults(sources: Mapping[str, bytes]) -> list[str]:
    """What is wrong with the files of an encoding.

    Arguments:
        sources: path below the folder that holds all of them → content.
    """
    if found := [f"{path} {fault}" for path in sorted(sources) for fault in unreadable(sources[path])]:
        return found  # what does not parse does not tell what it imports
    tops = {path.partition("/")[0].removesuffix(".py") for path in sources}
    if hidden := sorted(tops & {*OURS, *LIBRARIES, *sys.stdlib_module_names}):
        found.append(f"a file or folder is named as the module {hidden[0]!r}, which it would hide")
    known = {*tops, "bench", "tasks", *LIBRARIES, *sys.stdlib_module_names}
    if strangers := {top for path in sources for top in imports(path, sources[path])} - known:
        found.append(f"imports {', '.join(sorted(strangers))}, which it does not bring along")
    return found


def own_files(plugin: type[Encoding]) -> dict[str, bytes]:
    """A plugin's own files, by path below one folder.

    Raises:
        InputError: they lie in several.
    """
    elsewhere = encodings.closure(plugin)[1].values()
    roots = sorted({str(source.root) for source in elsewhere})
    if len(roots) != 1:
        raise InputError(
            f"{plugin.info.name} is made of files in {' and '.join(roots)}; expected one folder: put them side by side"
        )
    return {path: data for source in elsewhere for path, data in source.files.items()}


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
