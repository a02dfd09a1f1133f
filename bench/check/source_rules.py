"""Rules for the source of a submission, checked on its text: nothing is compiled or run."""

import ast
import re
import sys
import warnings
from collections.abc import Iterator, Mapping

from bench.encodings import Encoding
from bench.plugins.loading import OURS, imported_names
from bench.plugins.source_hash import closure
from bench.text_rules import invisible_character
from tasks import InputError

LIBRARIES = ("torch", "numpy", "jaxtyping")
"""What an encoding may import in addition to the standard library, ``lprime``, ``bench`` and ``tasks``."""
ALLOWED_IMPORTS = f"its own files, the standard library, lprime, bench, tasks, {', '.join(LIBRARIES)}"
COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
"""The declaration of a file's text encoding (PEP 263)."""


def source_faults(sources: Mapping[str, bytes]) -> list[str]:
    """Faults in the files of an encoding.

    Arguments:
        sources: path relative to their common folder → content.
    """
    if faults := [f"{path} {fault}" for path in sorted(sources) for fault in text_faults(sources[path])]:
        return faults  # the imports of a file that does not parse are unknown
    modules = {path.partition("/")[0].removesuffix(".py") for path in sources}
    if hidden := sorted(modules & {*OURS, *LIBRARIES, *sys.stdlib_module_names}):
        faults.append(f"a file or folder has the name of the module {hidden[0]!r} and would hide it")
    known = {*modules, "lprime", "bench", "tasks", *LIBRARIES, *sys.stdlib_module_names}
    if unknown := {package for path in sources for package in imported_packages(path, sources[path])} - known:
        faults.append(f"imports {', '.join(sorted(unknown))}, which is neither allowed nor among its files")
    return faults


def plugin_files(plugin: type[Encoding]) -> dict[str, bytes]:
    """A plugin's own files, by path below one folder.

    Raises:
        InputError: they are in several folders.
    """
    sources = closure(plugin)[1].values()
    roots = sorted({str(source.root) for source in sources})
    if len(roots) != 1:
        raise InputError(f"the files of {plugin.info.name} are in {' and '.join(roots)}; expected all in one folder")
    return {path: data for source in sources for path, data in source.files.items()}


def text_faults(content: bytes) -> Iterator[str]:
    """Faults that would make Python run something other than the text a reader sees."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        yield "is not UTF-8 text"
        return
    for line in content.splitlines()[:2]:
        cookie = COOKIE.match(line)
        if cookie and cookie[1].lower().replace(b"_", b"-") not in (b"utf-8", b"utf8"):
            yield f"declares the encoding {cookie[1].decode(errors='replace')!r:.40}; expected UTF-8"
            return
    if character := invisible_character(text.replace("\r\n", "\n"), allowed="\n\t"):
        yield f"contains an invisible character (U+{ord(character):04X})"
        return
    try:
        parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two if it is nested too deep
        yield f"is not Python: {type(error).__name__} {error}".rstrip()


def parse(content: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(content.decode("utf-8"))


def top_level_names(content: bytes) -> set[str]:
    """Names of the classes, imports and values that a module defines."""
    names = set()
    for node in parse(content).body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def imported_packages(path: str, content: bytes) -> set[str]:
    """First parts of the names of all modules that a source imports."""
    package = path.rpartition("/")[0].replace("/", ".")
    return {name.partition(".")[0] for name in imported_names(content, package)}
