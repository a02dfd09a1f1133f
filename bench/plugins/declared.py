"""Names of encodings for commands that only read: plugins are parsed, and none of their code runs.

In place of a plugin's class there is a stand-in with its name and settings, so that names are spelled as in results:
``my_encoding.py(rate=1)`` is ``my_encoding(rate=1.0)``.
"""

import ast
import inspect
import os
from collections.abc import Iterator
from pathlib import Path

from bench.encodings import Encoding, Info, Wrapper, classes
from bench.encodings.compose import resolve
from tasks import InputError

from . import registry
from .loading import NOT_PYTHON, find_module, parse, read_file
from .references import is_file, map_references, parts
from .registry import Known, entry_points

MOST_BYTES = 2**20
"""Largest file of a plugin that is parsed."""


def declared_name(text: str) -> str:
    """The name under which an encoding's results are stored, such as ``rope(base=500000.0)`` for ``rope(base=500000)``.

    Raises:
        InputError: an unknown name or setting, with the nearest match; a file whose ``info`` has no literal ``name``.
    """
    known = Declared()
    return resolve(map_references(text, known.add), known).info.name


class Declared(Known):
    """Name → class: built-in and loaded encodings, and stand-ins for installed and added ones."""

    def __init__(self) -> None:
        self.added: dict[str, type[Encoding]] = {}

    def add(self, reference: str) -> str:
        """Add the encoding of a reference; returns its name."""
        cls = stand_in(reference)
        self.added[cls.info.name] = cls
        return cls.info.name

    def __getitem__(self, name: str) -> type[Encoding]:
        if name in self.added:
            return self.added[name]
        if name in entry_points() and name not in classes() and name not in registry.loaded.plugins:
            return stand_in(entry_points()[name][0].value)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        return name in self.added or super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        return iter({*super().__iter__(), *self.added})


def stand_in(reference: str) -> type[Encoding]:
    """A class with the name and the settings that the source of a plugin declares.

    Raises:
        InputError: the source cannot be read, has no such class, or declares its name by an expression.
    """
    tree, wanted = parse_source(reference), parts(reference)[1]
    local = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    found = [node for name, node in local.items() if wanted in ("", name) and isinstance(declaration(node), ast.Call)]
    if len(found) != 1:
        candidates = [node.name for node in found] or [*local]
        hint = f"; name one, as in {reference}:{candidates[0]}" if found else ""
        which = f"a class {wanted}" if wanted else "one class"
        raise InputError(
            f"{reference}: expected {which} with info = Info(name=…), found {', '.join(candidates) or 'none'}{hint}"
        )
    info = declaration(found[0])
    assert isinstance(info, ast.Call)
    names = [k.value for k in info.keywords if k.arg == "name"] + info.args[:1]
    if not (names and isinstance(names[0], ast.Constant) and isinstance(name := names[0].value, str)):
        raise InputError(f"{reference}: the name in its info is not a literal, and this command runs no code of plugins")
    imports = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    original = {alias.asname: alias.name for alias in imports if alias.asname}
    lineage, bases = [found[0]], list[str]()
    for node in lineage:  # which grows
        bases += (original.get(name, name) for name in base_names(node))
        lineage += [local[name] for name in base_names(node) if name in local and local[name] not in lineage]
    built_in = {cls.__name__: cls for cls in (*classes().values(), Encoding, Wrapper)}
    base = max((built_in[name] for name in bases if name in built_in), key=lambda cls: len(cls.__mro__), default=Encoding)
    members = {"info": Info(name, "", "", "", 0, "", "", "", ""), "__module__": __name__}
    inits = (n for node in lineage for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
    if init := next(inits, None):
        members["__init__"] = with_signature(init.args)
    return type(found[0].name, (base,), members)


def declaration(node: ast.ClassDef) -> ast.expr | None:
    """The value of ``info`` in the body of a class."""
    for statement in node.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "info" for target in targets):
            return getattr(statement, "value", None)
    return None


def base_names(node: ast.ClassDef) -> list[str]:
    return [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]


def with_signature(arguments: ast.arguments):
    """A constructor that declares the keyword arguments whose defaults are literals."""
    parameters = []
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is None or is_literal(default):
            value = ast.literal_eval(default) if default else None
            parameters.append(inspect.Parameter(argument.arg, inspect.Parameter.KEYWORD_ONLY, default=value))

    def init(self, setup):
        raise TypeError("a stand-in has no hooks")

    init.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return init


def is_literal(node: ast.expr) -> bool:
    """Whether an expression has a value that can be read without running code."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def parse_source(reference: str) -> ast.Module:
    """The source of a reference, parsed.

    Raises:
        InputError: it cannot be found or read, is too large, or is not Python.
    """
    place = parts(reference)[0]
    path = Path(place) if is_file(reference) else find_module(place)
    if os.path.isfile(path) and path.stat().st_size > MOST_BYTES:  # Path.is_file raises an error if the name is too long
        raise InputError(f"{path} has more than {MOST_BYTES:,} bytes, too many for an encoding")
    content = read_file(path)
    try:
        return parse(content)
    except NOT_PYTHON as error:
        raise InputError(f"{path} is not Python: {str(error) or type(error).__name__}") from None
