"""Rules for the source of a submission, checked on its text and syntax tree: nothing is compiled or run."""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping

from bench.encodings import Encoding
from bench.plugins.loading import NOT_PYTHON, OURS, parse
from bench.plugins.source_hash import closure
from bench.text_rules import invisible_character
from tasks import InputError

from .syntax_rules import Modules, syntax_faults

LIBRARIES = ("torch", "numpy", "jaxtyping")
ALLOWED_IMPORTS = f"its own files, lprime, bench.encodings, {', '.join(LIBRARIES)} and the standard library's that compute"
LONGEST_LINE = 200
MOST_NUMBERS, LONGEST_NUMBER = 1000, 24
"""Numbers in all files of a submission, and characters of one. The built-in file with the most has 104."""
MOST_TEXT = 6000
"""Characters of all strings but docstrings, and of all different names: enough for an ``Info``, too little to hold weights."""
COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
"""The declaration of a file's text encoding (PEP 263)."""


def source_faults(sources: Mapping[str, bytes]) -> list[str]:
    """Faults in the files of an encoding.

    Arguments:
        sources: path relative to their common folder → content.
    """
    if faults := [f"{path} {fault}" for path in sorted(sources) for fault in text_faults(sources[path])]:
        return faults  # the imports of a file that does not parse are unknown
    own = {path.partition("/")[0].removesuffix(".py") for path in sources}
    if hidden := sorted(own & {*OURS, *LIBRARIES, *sys.stdlib_module_names}):
        faults.append(f"a file or folder has the name of the module {hidden[0]!r} and would hide it")
    trees = {path: parse(sources[path].decode()) for path in sorted(sources)}
    modules = {path: Modules(tree, own) for path, tree in trees.items()}
    shared = {name for imported in modules.values() for name in imported.names}
    try:
        for path, tree in trees.items():
            found = (*script_faults(sources[path], tree), *syntax_faults(tree, modules[path], shared))
            faults += [f"{path}, {fault}" for fault in found]
    except RecursionError:
        faults.append(f"{path} is nested too deep")
    return faults + literal_faults(trees)


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
    if long := [n for n, line in enumerate(text.splitlines(), 1) if len(line) > LONGEST_LINE]:
        yield f"has more than {LONGEST_LINE} characters in line {long[0]}"
        return
    try:
        parse(text)
    except NOT_PYTHON as error:
        yield f"is not Python: {type(error).__name__} {error}".rstrip()


def top_level_names(content: bytes) -> set[str]:
    """Names of the classes, imports and values that a module defines."""
    names = set()
    for node in parse(content.decode()).body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def script_faults(content: bytes, tree: ast.Module) -> Iterator[str]:
    """Characters other than ASCII, which look like others: allowed in comments, docstrings, ``Info`` and error messages."""
    for token in tokenize.tokenize(io.BytesIO(content).readline):  # names as written: Python reads a wide "e" as "e"
        if token.type in (tokenize.NAME, tokenize.NUMBER) and not token.string.isascii():
            yield f"line {token.start[0]}: {token.string!r:.40} is not ASCII"
    texts = {id(part) for node in ast.walk(tree) if is_text(node) for part in ast.walk(node)} | docstrings(tree)
    for node in ast.walk(tree):
        value = node.value if isinstance(node, ast.Constant) and id(node) not in texts else ""
        if isinstance(value, str) and not value.isascii():
            yield f"line {getattr(node, 'lineno', 0)}: {value!r:.40} is not ASCII"


def literal_faults(trees: Mapping[str, ast.Module]) -> list[str]:
    """Faults of the numbers, strings and names of all files together, which could hold trained weights."""
    count, text, faults, names = 0, 0, [], set[str]()
    for path, tree in trees.items():
        left_out = docstrings(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant):
                names |= {value for _, value in ast.iter_fields(node) if isinstance(value, str)}
            elif id(node) in left_out:
                continue
            elif isinstance(node.value, bytes):
                faults.append(f"{path}, line {node.lineno}: bytes are not allowed")
            elif isinstance(node.value, str):
                text += len(node.value)
            elif isinstance(node.value, (int, float, complex)) and not isinstance(node.value, bool):
                count += 1
                if isinstance(node.value, int) and abs(node.value) >= 10**LONGEST_NUMBER:  # too long ones have no repr
                    faults.append(f"{path}, line {node.lineno}: a number of more than {LONGEST_NUMBER} digits")
    if count > MOST_NUMBERS:
        faults.append(f"{count:,} numbers in the source, more than {MOST_NUMBERS:,}")
    for kind, characters in (("strings", text), ("different names", sum(map(len, names)))):
        if characters > MOST_TEXT:
            faults.append(f"{kind} of {characters:,} characters in the source, more than {MOST_TEXT:,}")
    return faults


def is_text(node: ast.AST) -> bool:
    """Whether strings inside a node are for people: an error, or an ``Info`` and a copy of one."""
    name = ast.unparse(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    return isinstance(node, ast.Raise) or name in ("Info", "published", "replace")


def docstrings(tree: ast.Module) -> set[int]:
    """Identities of the nodes that are docstrings, those of attributes included."""
    return {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
