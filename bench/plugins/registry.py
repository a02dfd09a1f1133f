"""Find encodings and tasks by name: built-in, from a file, or from an installed package.

::

    my_encoding.py, folder/file.py:Class     files, see ``references.py``
    recency                                  entry point ``lprime.encodings`` or ``lprime.tasks`` of an installed package

Once loaded, a plugin is known by its own name (``info.name`` of an encoding, ``name`` of a task), under which its results are
stored. Each process (each worker, too) loads a plugin once. A plugin is one file, which imports installed packages only, or
such a package.
"""

import ast
import importlib.metadata
import inspect
import keyword
import os
import re
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import tasks
from bench.encodings import Encoding, Info, Wrapper, classes
from bench.encodings.compose import resolve
from bench.result import RANKING_CLASSES
from tasks import InputError, Task, defined_in, unknown

from .loading import package_files, plugin_error
from .references import map_references, parts, references_in

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class Plugin:
    """A loaded encoding or task that is not built in."""

    cls: type
    origin: str
    """File or distribution, for messages."""
    reference: str | None = None
    """How another process finds it; None for an installed plugin, which is found by its name."""


loaded: dict[str, Plugin] = {}
"""Name → plugin that this process has loaded. No encoding has the name of a task."""
files: dict[Path, ModuleType] = {}
sources: dict[str, dict[str, bytes]] = {}
"""Module → its files as they were when loaded: path, relative to the folder that contains all of them → content."""


def get_encoding(name: str) -> type[Encoding]:
    """Return an encoding class by name, such as ``rope``, ``rope(base=500000)``, ``randomised(rope)`` or ``my_encoding.py``.

    Raises:
        InputError: an unknown name or setting, with the nearest match; a plugin that cannot be loaded.
    """
    own_names = map_references(name, lambda reference: load_reference(reference).info.name)
    for installed in entry_points().keys() & {*re.findall(r"\w+", own_names)} - classes().keys() - loaded.keys():
        load_installed(installed)
    plugins = {plugin: one.cls for plugin, one in loaded.items() if issubclass(one.cls, Encoding)}
    known = dict.fromkeys(entry_points(), Encoding) | plugins | classes()  # those that are not loaded are not in this name
    if (base := own_names.partition("(")[0]) not in known and os.path.isfile(file := f"{os.path.splitext(base)[0]}.py"):
        raise unknown("encoding", base, [file])
    if own_names != name and issubclass(known.get(own_names, Encoding), Wrapper):
        raise InputError(f"{own_names} wraps another encoding; expected it in brackets, as in {name}(rope)")
    return resolve(own_names, known)


def get_task(name: str) -> tuple[type[Task], dict[str, Any]]:
    """Return the class of a task and the settings given with it: ``copying``, ``my_task.py:Class(letters=4)``.

    Raises:
        InputError: an unknown task, with the nearest match; a plugin that cannot be loaded.
    """
    own = map_references(name, lambda reference: load_reference(reference, Task).name)
    try:
        tree = ast.parse(own.strip(), mode="eval").body
        call = tree if isinstance(tree, ast.Call) and not tree.args else ast.Call(tree, [], [])
        plain, settings = call.func.id, {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}  # type: ignore[attr-defined]
    except (SyntaxError, ValueError, AttributeError, RecursionError, MemoryError):
        raise InputError(f"{name!r} is not a task; expected a name or a file, as in copying(letters=4)") from None
    if plain in entry_points(Task).keys() - tasks.catalogue().keys() - tasks.added.keys():
        load_installed(plain, Task)
    return tasks.find(plain), settings


def is_task(name: str) -> bool:
    """Whether a name, or what is in a file, is a task and not an encoding. Raises ``InputError`` as ``load_module`` does."""
    if found := references_in(name):
        place, cls = parts(found[0])
        own = [one.__name__ for one in defined_in(load_module(place), Task)]
        return cls in own if cls else bool(own)
    return name.partition("(")[0].strip() in tasks.catalogue().keys() | entry_points(Task).keys()


@cache
def is_built_in(name: str) -> bool:
    """Whether an encoding, by its name in results, has no code of a plugin."""
    try:
        return bool(resolve(name, classes()))
    except InputError:
        return False


def load_module(place: str, noun: str = "plugin") -> ModuleType:
    """Execute a file, which defines a ``noun``, as a module, unless this process has done so.

    Its source is this file alone: it imports installed packages only.

    Raises:
        InputError: the file cannot be read, with the nearest match; or it raises an error.
    """
    given, path = Path(place), Path(place).resolve()
    if path in files:
        return files[path]
    try:
        content = given.read_bytes()
    except OSError as error:
        near = get_close_matches(given.name, [p.name for p in given.parent.glob("*.py") if p.name != given.name], 1)
        hint = f"; did you mean {str(given.with_name(near[0]))!r}?" if near else ""
        raise InputError(f"cannot read {noun} {given}: {error.strerror or error}{hint}") from None
    module = ModuleType(f"lprime_plugin_{len(sources)}_{path.stem}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        exec(compile(content, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise plugin_error(str(path), error) from error
    files[path], sources[module.__name__] = module, {path.name: content}
    return module


def load_reference(reference: str, kind: type = Encoding) -> Any:
    """Load and register the encoding, or the task, of a file and return its class: the named one, or the only one.

    Raises:
        InputError: the file or class does not exist, fails to import, is not of this kind, or has a name that is taken; or no
            class is named and there are several.
    """
    place, name = parts(reference)
    module, declared = load_module(place, noun(kind)), "info" if kind is Encoding else "name"
    own = {cls.__name__: cls for cls in defined_in(module, kind) if declared in vars(cls)}
    if name and name not in own:
        raise unknown(f"class of {place}", name, own)
    if not own:
        expected = f"a subclass of lprime.{kind.__name__} with its own `{declared}`"
        raise InputError(f"{place} defines no {noun(kind)}; expected {expected}")
    first, *others = own
    if others and not name:
        raise InputError(f"{place} defines {len(own)} {noun(kind)}s ({', '.join(own)}); name one, as in {place}:{first}")
    cls = own[name or first]
    return register(Plugin(cls, reference, f"{Path(place).resolve()}:{cls.__qualname__}"), kind)


def register(plugin: Plugin, kind: type = Encoding) -> Any:
    """Register a plugin under its name and return its class.

    Raises:
        InputError: it is not of this kind, or its name is invalid or taken (the message names both plugins).
    """
    cls = validate_class(plugin.cls, plugin.origin, kind)
    name = own_name(cls)
    rival = loaded.get(name)
    other = rival.origin if rival and rival.cls is not cls else distributions(name, kind) if plugin.reference else ""
    if other:
        raise InputError(f"two plugins are named {name!r}: {other} and {plugin.origin}; rename one")
    loaded.setdefault(name, plugin)
    source_of(cls.__module__)
    if kind is Task:
        tasks.added[name] = cls
    return cls


def validate_class(cls: object, origin: str, kind: type = Encoding) -> Any:
    """Return ``cls`` if it is an encoding with a valid name and ranking class, or a complete task with a valid name.

    Raises:
        InputError: it is not of this kind, or lacks something; or its ``info``, name or ranking class is invalid.
    """
    if not (inspect.isclass(cls) and issubclass(cls, kind)):
        raise InputError(f"{origin} is no {noun(kind)}; expected a subclass of lprime.{kind.__name__}, got {cls!r:.80}")
    if issubclass(cls, Task):
        lacks = [one for one in ("name", "title", "variants", "length_is") if not getattr(cls, one, None)]
        if lacks := [*lacks, *sorted(cls.__abstractmethods__)]:
            raise InputError(f"{origin}: {cls.__name__} lacks {', '.join(lacks)}; tasks.Task says what they are")
    info = getattr(cls, "info", None)
    if kind is Encoding and not isinstance(info, Info):
        raise InputError(f"{origin}: {cls.__name__} has no info; expected info = bench.encodings.Info(name=…, …)")
    validate_name(own_name(cls), origin, kind)
    if info and info.ranking not in RANKING_CLASSES:
        raise unknown(f"ranking of {origin}", str(info.ranking), RANKING_CLASSES)
    return cls


def noun(kind: type) -> str:
    """What plugins of this base class are: ``encoding`` or ``task``."""
    return kind.__name__.lower()


def own_name(cls: Any) -> Any:
    """The name that an encoding or a task gives itself."""
    return getattr(cls, "info", cls).name


def validate_name(name: object, origin: str, kind: type = Encoding) -> None:
    """Check that a plugin can have this name.

    Raises:
        InputError: it is not a valid name, or belongs to a built-in encoding or task.
    """
    if not (isinstance(name, str) and NAME.fullmatch(name)) or keyword.iskeyword(name):
        expected = "up to 64 of a-z, 0-9 and _, start with a letter and not be a keyword"
        raise InputError(f"{origin}: the name of a plugin must be {expected}, got {name!r}")
    if name in (classes() if kind is Encoding else tasks.catalogue()) or name == "all":
        raise InputError(f"{origin}: the name {name!r} belongs to a built-in {noun(kind)}, or to all; choose another")


@cache
def entry_points(kind: type = Encoding) -> dict[str, importlib.metadata.EntryPoint]:
    """Name → entry point of each encoding, or each task, of an installed package."""
    return {point.name: point for point in importlib.metadata.entry_points(group=f"lprime.{noun(kind)}s")}


def distributions(name: str, kind: type = Encoding) -> str:
    """The installed package that provides an encoding or a task, as text; empty if there is none."""
    point = entry_points(kind).get(name)
    return f"{point.dist.name} {point.dist.version}" if point and point.dist else ""


def load_installed(name: str, kind: type = Encoding) -> Any:
    """Load and register the encoding or task that an installed package provides under a name, and return its class.

    Raises:
        InputError: it fails to import, is not of this kind, has another name, or the name is taken.
    """
    origin = f"plugin {name!r} of {distributions(name, kind)}"
    try:
        cls = entry_points(kind)[name].load()
    except (Exception, SystemExit) as error:
        raise plugin_error(origin, error) from error
    if (own := own_name(validate_class(cls, origin, kind))) != name:
        raise InputError(f"{origin} names itself {own!r}; expected the same name in its entry point and its class")
    return register(Plugin(cls, distributions(name, kind)), kind)


def references(cls: type[Encoding]) -> tuple[str, ...]:
    """The files that another process must load before it can find an encoding by name, wrapped encodings included."""
    inner = references(cls.inner) if issubclass(cls, Wrapper) and cls.inner is not Encoding else ()
    outer = tuple(p.reference for p in loaded.values() if p.reference and p.cls in cls.__mro__)
    return tuple(dict.fromkeys(outer + inner))


def source_of(module: str) -> dict[str, bytes]:
    """Return the files of a plugin's module, see ``sources``; of an installed one, the files of its package."""
    if module not in sources:
        root, own = package_files(module)
        sources[module] = {file.relative_to(root).as_posix(): file.read_bytes() for file in own}
    return sources[module]
