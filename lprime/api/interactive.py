"""Encodings given as classes, and files that change while a notebook runs: references by which any process finds them.

Trainings and checks load an encoding from a file, whose hash is part of its results. The source of a class that was written in
a notebook or a script is copied into a file of its own, with the imports, constants, functions and classes that it uses.
"""

import ast
import builtins
import hashlib
import inspect
import linecache
import symtable
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType, ModuleType
from typing import Any

from bench.encodings import Encoding
from bench.files import write_atomic
from bench.plugins import registry
from bench.runs.shared_training import trained_as
from tasks import InputError

WRITE_A_FILE = "write the encoding to a file, such as my_encoding.py, and give its path"


def reference_of(encoding: str | Path | type[Encoding]) -> str:
    """The name or reference of an encoding, as commands take it. Files that have changed are loaded again.

    Raises:
        InputError: not an encoding, or a class whose source cannot be copied into a file.
    """
    forget_changed_files()
    if isinstance(encoding, str | Path):
        return str(encoding)
    if not (inspect.isclass(encoding) and issubclass(encoding, Encoding)):
        raise InputError(f"expected an encoding: a name, a file or a subclass of lprime.Encoding, got {encoding!r:.80}")
    name = getattr(getattr(encoding, "info", None), "name", "")
    try:
        found = registry.get_encoding(name) if name else None
        # Every look-up of a composition makes a class.
        if found is encoding or (found and "(" in name and definition(found) == definition(encoding)):
            return name
    except InputError:
        pass
    module = sys.modules.get(encoding.__module__)
    file = getattr(module, "__file__", None)
    if encoding.__module__ == "__main__" or not file:
        registry.validate_class(encoding, f"class {encoding.__name__}")
        return str(write_class(encoding))
    return f"{file}:{encoding.__qualname__}"


def definition(cls: type) -> tuple[str, str]:
    """File and qualified name of a class."""
    return inspect.getfile(cls), cls.__qualname__


def forget_changed_files() -> None:
    """Unload plugins from files that have changed; processes otherwise keep what they loaded first."""
    loaded = registry.loaded
    for path, module in list(loaded.files.items()):
        source = loaded.sources[module.__name__]
        contents = zip(source.paths, source.files.values(), strict=True)
        if all(file.is_file() and file.read_bytes() == content for file, content in contents):
            continue
        del loaded.files[path]
        loaded.files[path.with_name(f"{path.name}#{len(loaded.files)}")] = module  # names of modules count the files
        forget([name for name, plugin in loaded.plugins.items() if plugin.cls.__module__ == module.__name__])


def forget(names: list[str]) -> None:
    """Unload plugins by name."""
    for name in names:
        del registry.loaded.plugins[name]
    trained_as.cache_clear()


@cache
def scratch() -> "TemporaryDirectory[str]":
    """The folder of written classes, deleted when the process ends."""
    return TemporaryDirectory(prefix="lprime-", ignore_cleanup_errors=True)


def write_class(cls: type[Encoding]) -> Path:
    """Write the source of a class into a file of its own; an earlier class of that name is forgotten.

    Raises:
        InputError: its source is not known, or it uses a value that has none.
    """
    text = "\n\n\n".join(dict.fromkeys(definitions(cls.__name__, cls, f"class {cls.__name__}", ()))) + "\n"
    path = Path(scratch().name) / hashlib.sha256(text.encode()).hexdigest()[:12] / f"{cls.info.name}.py"
    if not path.exists():
        write_atomic(path, text)
    earlier = registry.loaded.plugins.get(cls.info.name)
    if earlier and earlier.reference and earlier.reference.startswith(scratch().name) and str(path) not in earlier.reference:
        forget([cls.info.name])
    return path


def definitions(name: str, value: Any, user: str, users: tuple[Any, ...]) -> Iterator[str]:
    """Statements that define ``name`` as ``value``, after those of everything that they use.

    Arguments:
        user: what uses it, for messages.
        users: classes and functions whose definitions are in progress; they may use each other.

    Raises:
        InputError: it cannot be defined by a statement.
    """
    home, qualified = getattr(value, "__module__", None), getattr(value, "__qualname__", name)
    if isinstance(value, ModuleType):
        yield f"import {value.__name__} as {name}"
    elif isinstance(value, FunctionType | type) and (home == "__main__" or not hasattr(sys.modules.get(str(home)), qualified)):
        if value in users:
            return
        source = source_of(value)
        for used in global_names(source):
            if used in (names := namespace(value)):
                yield from definitions(used, names[used], value.__name__, (*users, value))
        yield source if value.__name__ == name else f"{source}\n\n\n{name} = {value.__name__}"
    elif home and home != "__main__" and getattr(sys.modules.get(home), qualified, None) is value:
        yield f"from {home} import {qualified} as {name}"
    elif is_constant(value):
        yield f"{name} = {value!r}"
    else:
        raise InputError(f"{user} uses {name} of the notebook, of type {type(value).__name__}; {WRITE_A_FILE}")


def is_constant(value: object) -> bool:
    """Whether ``repr`` of a value is its definition."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError):
        return False


def functions(value: Any) -> list[FunctionType]:
    """A function, or the functions of a class."""
    members = vars(value).values() if inspect.isclass(value) else [value]
    found = [inspect.unwrap(getattr(member, "__func__", member)) for member in members]
    return [each for each in found if isinstance(each, FunctionType) and each.__module__ == value.__module__]


def namespace(value: Any) -> dict[str, Any]:
    """The global names that a class or function sees."""
    own = functions(value)
    return own[0].__globals__ if own else vars(sys.modules[value.__module__])


def source_of(value: Any) -> str:
    """The source of a class or function of the top level. Cells of a notebook are known to ``linecache``, by function.

    Raises:
        InputError: it is not known.
    """
    for function in functions(value):
        lines, place = linecache.getlines(function.__code__.co_filename), function.__code__.co_firstlineno
        try:
            body = ast.parse("".join(lines)).body
        except SyntaxError:
            continue
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == value.__name__:
                start = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                if start <= place <= (node.end_lineno or place):
                    return "".join(lines[start - 1 : node.end_lineno]).rstrip()
    try:
        return inspect.cleandoc(inspect.getsource(value))
    except (OSError, TypeError):
        raise InputError(f"the source of {value.__name__} is not known here; {WRITE_A_FILE}") from None


def global_names(source: str) -> list[str]:
    """Global names that a definition uses, built-in ones excluded, sorted."""
    found = set()
    tables = [symtable.symtable(source, "<definition>", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            outside = symbol.is_global() or (table.get_type() == "module" and not symbol.is_assigned())
            if symbol.is_referenced() and outside:
                found.add(symbol.get_name())
    return sorted(name for name in found if name not in vars(builtins))
