"""Load a plugin's code, from a file or an importable module, and list the files it consists of."""

import ast
import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.machinery import PathFinder
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from bench.encodings import Info
from tasks import InputError

from .references import is_file, parts

OURS = ("bench", "tasks", "leaderboard", "slurm", "lprime")
"""Packages of the harness, which are never part of a plugin's source."""
NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors of ``parse``; the last two if the code is nested too deep."""


@dataclass
class Source:
    """The files that a module consists of, as they were when it was loaded."""

    root: Path
    """The folder that contains all of them."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Path relative to ``root`` → content."""
    outside: set[str] = field(default_factory=set)
    """Names of other modules that it imports."""

    @property
    def paths(self) -> list[Path]:
        return [self.root / path for path in self.files]


def read_source(reference: str, path: Sequence[str] = ()) -> Source:
    """The files of a reference, found without running any of them.

    Arguments:
        path: folders to search for modules before all others.

    Raises:
        InputError: Python does not find its module, or a file cannot be read.
    """
    place = parts(reference)[0]
    if is_file(reference):
        file = Path(place)
        return files_of(file.stem.replace(".", "_"), file.resolve(), read_file(file), alone=True)
    root = module_root(place, path)
    found = module_file(root, place) if root else None
    if found is None:
        raise missing_module(place, path)
    return files_of(place, found)


def files_of(name: str, file: Path, content: bytes | None = None, alone: bool = False) -> Source:
    """Return a module's file and the files it imports, directly or indirectly, from the same package or folder.

    Determined from import statements rather than from what is loaded, so that every process and machine gets the same files.
    Imports made at run time (``importlib.import_module``) are not seen.

    Arguments:
        name: dotted name of the module; the first part is a package, or the module itself if there are no dots.
        content: content of its file, if already read.
        alone: the module is a file in a folder, and other files there belong to it; otherwise it is part of a package.
    """
    depth = name.count(".") + (file.name == "__init__.py")
    source, top = Source(file.parents[depth]), name.partition(".")[0]
    seen: set[str] = set()
    pending = [*prefixes(name)]
    while pending:
        module = pending.pop()
        if module in seen:
            continue
        seen.add(module)
        path = file if module == name else module_file(source.root, module)
        first = module.partition(".")[0]
        if path is None or first in OURS or not (alone or first == top):
            source.outside.add(module)
            continue
        text = content if module == name and content is not None else path.read_bytes()
        source.files[path.relative_to(source.root).as_posix()] = text
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        pending += imported_names(text, package)
    return source


def prefixes(name: str) -> Iterator[str]:
    """``a.b.c`` → ``a``, ``a.b``, ``a.b.c``: importing the last imports all of them."""
    steps = name.split(".")
    return (".".join(steps[: n + 1]) for n in range(len(steps)))


def imported_names(content: bytes, package: str) -> Iterator[str]:
    """Every imported name in a source file that may be a module, including imports inside functions."""
    try:
        tree = parse(content)
    except NOT_PYTHON:
        return  # for example a compiled module
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from prefixes(alias.name)
        elif isinstance(node, ast.ImportFrom):
            steps = package.split(".") if package else []
            above = steps[: len(steps) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            if base:
                yield from prefixes(base)
            for alias in node.names:
                yield f"{base}.{alias.name}" if base else alias.name


def read_file(path: Path) -> bytes:
    """Content of a plugin's file.

    Raises:
        InputError: it cannot be read; with the nearest match.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        near = get_close_matches(path.name, [p.name for p in path.parent.glob("*.py") if p.name != path.name], 1)
        hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise InputError(f"cannot read encoding {path}: {error.strerror or error}{hint}") from None


def parse(content: bytes | str) -> ast.Module:
    """The syntax tree of a file, without Python's warnings about it.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: it is not Python, or is nested too deep; see ``NOT_PYTHON``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(content)


def read_module(path: Path, name: str) -> tuple[ModuleType, Source]:
    """Execute a file as a module of the given name. The bytes executed are the bytes in its ``Source``.

    Raises:
        InputError: the file cannot be read, or raises an error.
    """
    content, path = read_file(path), path.resolve()
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        with importable(path.parent) as imported:
            exec(compile(content, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise plugin_error(str(path), error) from error
    source = files_of(path.stem.replace(".", "_"), path, content, alone=True)
    for other, file in imported.items():  # includes imports that are not visible in the source
        more = files_of(other, file, alone=True)
        source.files, source.outside = more.files | source.files, more.outside | source.outside
    return module, source


@contextmanager
def importable(folder: Path) -> Iterator[dict[str, Path]]:
    """Make the modules of a folder importable, after all others, and unload them on exit: two plugins may both have a
    ``utils.py``.

    Yields:
        Name → file of the modules imported from the folder; filled on exit.
    """
    before, paths, bytecode = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    imported: dict[str, Path] = {}
    sys.path.append(str(folder))
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield imported
    finally:
        sys.path[:] = paths
        sys.dont_write_bytecode = bytecode
        for name in set(sys.modules) - before:
            file, here = getattr(sys.modules[name], "__file__", None), module_file(folder, name)
            if file and here and here.samefile(file) and name.partition(".")[0] not in OURS:
                imported[name] = here
                del sys.modules[name]


def import_module(name: str, reference: str) -> ModuleType:
    """Import a module that Python finds, also in the current folder.

    Raises:
        InputError: it does not exist, with the nearest match; or it raises an error.
    """
    try:
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            sys.path.append(os.getcwd())  # unlike `python -m`, the `lprime` command does not search the current folder
            importlib.invalidate_caches()
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):  # not one that it imports
            raise missing_module(name) from None
        raise plugin_error(reference, error) from error


def module_root(name: str, path: Sequence[str] = ()) -> Path | None:
    """The folder that contains the package of a module, or the module itself; None if Python does not find it."""
    top = name.partition(".")[0]
    spec = PathFinder.find_spec(top, [*path])
    with suppress(ValueError):  # a module that was not imported from a file
        spec = spec or importlib.util.find_spec(top)  # also packages installed with ``pip install -e``
    spec = spec or PathFinder.find_spec(top, [os.getcwd()])
    places = spec and (spec.submodule_search_locations or (spec.has_location and spec.origin and [spec.origin]))
    return Path(places[0]).parent if places else None


def module_file(root: Path, module: str) -> Path | None:
    """The file of a module below ``root``, if there is one."""
    base = root.joinpath(*module.split("."))
    return next((path for path in (base / "__init__.py", base.with_name(base.name + ".py")) if path.is_file()), None)


def missing_module(name: str, path: Sequence[str] = ()) -> InputError:
    """The error about a module that Python does not find, with the nearest match; no module is imported."""
    message, near = f"Python finds no file of a module {name!r}", []
    root = module_root(name, path)
    folders = [str(root)] if root else [*path, *sys.path, str(Path.cwd())]
    for word in name.split("."):
        known = [module.name for module in iter_modules(folders)]
        if word.isidentifier() and any(os.path.isdir(os.path.join(folder, word)) for folder in folders):
            known.append(word)  # a namespace package, a folder without __init__.py
        match = get_close_matches(word, known, 1)  # the word itself, if it exists
        if not match:
            return InputError(message)
        near += match
        folders = [os.path.join(folder, *match) for folder in folders]
    return InputError(f"{message}; did you mean {'.'.join(near)!r}?" if ".".join(near) != name else message)


def plugin_error(origin: str, error: BaseException, what: str = "cannot be imported", file: str = "") -> InputError:
    """Describe an error raised by a plugin's code in one line, with the last line of the plugin in the traceback.

    Arguments:
        file: the plugin's file, if it is not ``origin``.
    """
    machinery = ("<", str(Path(__file__).parents[1]), str(Path(importlib.__file__).parent))
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename == (file or origin)] or [f for f in frames if not f.filename.startswith(machinery)]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""  # a syntax error contains its own line
    text = " ".join(str(error).split())
    hint = "; a file has no package: import `name` for `.name`" if "no known parent package" in text else ""
    if given := re.fullmatch(r"Info\.__init__\(\) got an unexpected keyword argument '(\w+)'", text):
        near = get_close_matches(given[1], Info.__dataclass_fields__, 1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; expected fields are {', '.join(Info.__dataclass_fields__)}"
    return InputError(f"{origin} {what}{where}: {type(error).__name__}{': ' if text else ''}{text}{hint}")


@contextmanager
def one_line_errors(cls: type) -> Iterator[None]:
    """Report any error raised by an encoding's code in this block in one line.

    Raises:
        InputError: the encoding's code raised an error.
    """
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise plugin_error(cls.info.name, error, "raised an error", inspect.getfile(cls)) from error  # type: ignore[attr-defined]
