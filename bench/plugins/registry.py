"""Find encodings by name: built-in, from a file, or from an installed package.

::

    my_encoding.py, folder/file.py:Class     files, see ``references.py``
    recency                                  entry point ``lprime.encodings`` of an installed package

Once loaded, a plugin is known by its ``info.name``, and its results are stored under that name. Each process (each worker, too)
loads a plugin once. A plugin is one file, which imports installed packages only, or such a package.
"""

import importlib.metadata
import inspect
import keyword
import os
import re
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType

from bench.encodings import Encoding, Info, Wrapper, classes
from bench.encodings.compose import resolve
from bench.result import RANKING_CLASSES
from tasks import InputError, unknown

from .loading import Source, load_file, package_files, plugin_error, used_modules
from .references import map_references, parts, references_in

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class Plugin:
    """A loaded encoding that is not built in."""

    cls: type[Encoding]
    origin: str
    """File or distribution, for messages."""
    reference: str | None = None
    """How another process finds it; None for an installed plugin, which is found by its name."""


@dataclass
class Loaded:
    """Plugins loaded by this process."""

    plugins: dict[str, Plugin] = field(default_factory=dict)
    """By name of the encoding."""
    files: dict[Path, ModuleType] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    """By module, as it was when loaded."""


loaded = Loaded()


def get_encoding(name: str) -> type[Encoding]:
    """Return an encoding class by name, such as ``rope``, ``rope(base=500000)``, ``randomised(rope)`` or ``my_encoding.py``.

    Raises:
        InputError: an unknown name or setting, with the nearest match; a plugin that cannot be loaded.
    """
    own_names = map_references(name, lambda reference: load_reference(reference).info.name)
    for installed in entry_points().keys() & {*re.findall(r"\w+", own_names)} - classes().keys() - loaded.plugins.keys():
        load_installed(installed)
    plugins = {plugin: one.cls for plugin, one in loaded.plugins.items()}
    known = dict.fromkeys(entry_points(), Encoding) | plugins | classes()  # those that are not loaded are not in this name
    if name not in known and not references_in(name) and os.path.isfile(file := f"{os.path.splitext(name)[0]}.py"):
        raise unknown("encoding", name, [file])
    return resolve(own_names, known)


@cache
def is_built_in(name: str) -> bool:
    """Whether an encoding, by its name in results, has no code of a plugin."""
    try:
        return bool(resolve(name, classes()))
    except InputError:
        return False


def load_reference(reference: str) -> type[Encoding]:
    """Load and register the encoding of a file.

    Raises:
        InputError: the file or class does not exist, fails to import, is not an encoding, or has a name that is taken.
    """
    place, class_name = parts(reference)
    path = Path(place).resolve()
    if path not in loaded.files:
        module = f"lprime_plugin_{len(loaded.sources)}_{path.stem}"
        loaded.files[path], loaded.sources[module] = load_file(Path(place), module)
    cls = encoding_in(loaded.files[path], class_name, place)
    return register(Plugin(cls, reference, f"{path}:{cls.__qualname__}"))


def register(plugin: Plugin) -> type[Encoding]:
    """Register a plugin under its name and return its class.

    Raises:
        InputError: it is not an encoding, or its name is invalid or taken (the message names both plugins).
    """
    cls = validate_class(plugin.cls, plugin.origin)
    name, rival = cls.info.name, loaded.plugins.get(cls.info.name)
    other = rival.origin if rival and rival.cls is not cls else distributions(name) if plugin.reference else ""
    if other:
        raise InputError(f"two plugins are named {name!r}: {other} and {plugin.origin}; rename one in its info")
    loaded.plugins.setdefault(name, plugin)
    source_of(cls.__module__)
    return cls


def validate_class(cls: object, origin: str) -> type[Encoding]:
    """Return ``cls`` if it is an encoding with a valid name and ranking class.

    Raises:
        InputError: it is not an encoding, or its ``info``, name or ranking class is invalid.
    """
    if not (inspect.isclass(cls) and issubclass(cls, Encoding)):
        raise InputError(f"{origin} is not an encoding; expected a subclass of bench.encodings.Encoding, got {cls!r:.80}")
    info = getattr(cls, "info", None)
    if not isinstance(info, Info):
        raise InputError(f"{origin}: {cls.__name__} has no info; expected info = bench.encodings.Info(name=…, …)")
    validate_name(info.name, origin)
    if info.ranking not in RANKING_CLASSES:
        raise unknown(f"ranking of {origin}", str(info.ranking), RANKING_CLASSES)
    return cls


def validate_name(name: object, origin: str) -> None:
    """Check that a plugin can have this name.

    Raises:
        InputError: it is not a valid name, or belongs to a built-in encoding.
    """
    if not (isinstance(name, str) and NAME.fullmatch(name)) or keyword.iskeyword(name):
        expected = "up to 64 of a-z, 0-9 and _, start with a letter and not be a keyword"
        raise InputError(f"{origin}: the name of an encoding must be {expected}, got {name!r}")
    if name in classes() or name == "all":
        raise InputError(f"{origin}: the name {name!r} belongs to a built-in encoding, or to all; choose another")


def encoding_in(module: ModuleType, name: str, origin: str) -> type[Encoding]:
    """Return the encoding of that name that a module defines; without a name, the only one.

    Raises:
        InputError: there is no such class, or there are several.
    """
    defined = [c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__]
    own = {c.__name__: c for c in defined if issubclass(c, Encoding) and "info" in vars(c)}
    if name:
        if name not in own:
            raise unknown(f"class of {origin}", name, own)
        return own[name]
    if not own:
        expected = "a subclass of bench.encodings.Encoding with an info of its own"
        raise InputError(f"{origin} defines no encoding; expected {expected}")
    first, *others = own
    if others:
        raise InputError(f"{origin} defines {len(own)} encodings ({', '.join(own)}); name one, as in {origin}:{first}")
    return own[first]


@cache
def entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    """Name → entry point of each encoding of an installed package."""
    return {point.name: point for point in importlib.metadata.entry_points(group="lprime.encodings")}


def distributions(name: str) -> str:
    """The installed package that provides an encoding, as text; empty if there is none."""
    point = entry_points().get(name)
    return f"{point.dist.name} {point.dist.version}" if point and point.dist else ""


def load_installed(name: str) -> type[Encoding]:
    """Load and register the encoding that an installed package provides under a name.

    Raises:
        InputError: it fails to import, is not an encoding, has another name, or the name is taken.
    """
    origin = f"plugin {name!r} of {distributions(name)}"
    try:
        cls = entry_points()[name].load()
    except (Exception, SystemExit) as error:
        raise plugin_error(origin, error) from error
    if validate_class(cls, origin).info.name != name:
        raise InputError(f"{origin} names itself {cls.info.name!r}; expected the same name in its entry point and its info")
    return register(Plugin(cls, distributions(name)))


def references(cls: type[Encoding]) -> tuple[str, ...]:
    """The files that another process must load before it can find an encoding by name, wrapped encodings included."""
    inner = references(cls.inner) if issubclass(cls, Wrapper) and cls.inner is not Encoding else ()
    outer = tuple(p.reference for p in loaded.plugins.values() if p.reference and p.cls in cls.__mro__)
    return tuple(dict.fromkeys(outer + inner))


def source_of(module: str) -> Source:
    """Return the files of a plugin's module, as they were when this process loaded it; of an installed one, the files of its
    package."""
    if module not in loaded.sources:
        root, files = package_files(module)
        contents = {file.relative_to(root).as_posix(): file.read_bytes() for file in files}
        loaded.sources[module] = Source(contents, used_modules(sys.modules[module]))
    return loaded.sources[module]
