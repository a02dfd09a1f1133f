"""Find encodings by name: built-in, from a file, from an importable module, or from an installed package.

::

    my_encoding.py, folder/file.py:Class, package.module:Class     references, see ``references.py``
    recency                                                        entry point ``lprime.encodings`` of an installed package

Once loaded, a plugin is known by its ``info.name``, and its results are stored under that name. Each process (each worker, too)
loads a plugin once. A plugin's file can import other files of its folder; they are unloaded afterwards, so that plugins do not
see each other's files.
"""

import importlib.metadata
import inspect
import keyword
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import ModuleType

from bench.encodings import Encoding, Info, Wrapper, classes
from bench.encodings.compose import resolve
from bench.result import RANKING_CLASSES
from tasks import InputError, unknown

from .loading import Source, files_of, import_module, plugin_error, read_module
from .references import encoding_chain, is_file, map_references, parts, references_in

GROUP = "lprime.encodings"
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class Plugin:
    """A loaded encoding that is not built in."""

    cls: type[Encoding]
    origin: str
    """Reference or distribution, for messages."""
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


class Known(Mapping[str, type[Encoding]]):
    """Name → class: built-in, loaded and installed encodings. Installed ones are imported on access."""

    def __getitem__(self, name: str) -> type[Encoding]:
        if name in classes():
            return classes()[name]
        if name in loaded.plugins:
            return loaded.plugins[name].cls
        if name not in entry_points():
            raise KeyError(name)
        return load_installed(name)

    def __contains__(self, name: object) -> bool:
        return name in classes() or name in loaded.plugins or name in entry_points()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*classes(), *loaded.plugins, *entry_points()}))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def get_encoding(name: str) -> type[Encoding]:
    """Return an encoding class by name, such as ``rope``, ``rope(base=500000)``, ``randomised(rope)`` or ``my_encoding.py``.

    Raises:
        InputError: an unknown name or setting, with the nearest match; a plugin that cannot be loaded.
    """
    known = Known()
    if name not in known and not references_in(name) and os.path.isfile(file := f"{os.path.splitext(name)[0]}.py"):
        raise unknown("encoding", name, [file])
    return resolve(map_references(name, lambda reference: load_reference(reference).info.name), known)


def full_name(name: str) -> str:
    """The name under which an encoding's results are stored: ``rope(base=500000.0)`` of ``rope(base=500000)``. Loads plugins.

    Raises:
        InputError: see ``get_encoding``.
    """
    return get_encoding(name).info.name


@cache
def is_built_in(name: str) -> bool:
    """Whether an encoding, by its name in results, has no code of a plugin."""
    try:
        return set(encoding_chain(name)) <= classes().keys()
    except ValueError:
        return False


def load_reference(reference: str) -> type[Encoding]:
    """Load and register the encoding of a reference.

    Raises:
        InputError: the file, module or class does not exist, fails to import, is not an encoding, or has a name that is taken.
    """
    place, name = parts(reference)
    if is_file(reference):
        module, absolute = module_of_file(Path(place)), str(Path(place).resolve())
    else:
        module, absolute = import_module(place, reference), place
    cls = encoding_in(module, name, place)
    return register(Plugin(cls, reference, f"{absolute}:{cls.__qualname__}"))


def register(plugin: Plugin) -> type[Encoding]:
    """Register a plugin under its name and return the class that has the name from now on.

    Raises:
        InputError: it is not an encoding, or its name is invalid or taken (the message names both plugins).
    """
    cls, name = validate_class(plugin.cls, plugin.origin), plugin.cls.info.name
    rival = loaded.plugins.get(name)
    if rival is None and plugin.reference is not None and name in entry_points():
        rival = Plugin(load_installed(name), distributions(name))
    if rival is None:
        loaded.plugins[name] = plugin
        source_of(cls.__module__)
        return cls
    if definition(rival.cls) != definition(cls):
        raise InputError(f"two plugins are named {name!r}: {rival.origin} and {plugin.origin}; rename one in its info")
    return rival.cls  # the same class by another reference, such as a file of a package installed for development


def validate_class(cls: object, origin: str) -> type[Encoding]:
    """Return ``cls`` if it is an encoding with a valid name, ranking class and family.

    Raises:
        InputError: it is not an encoding, its ``info``, name or ranking class is invalid, or its family is nearly one that
            exists.
    """
    if not (inspect.isclass(cls) and issubclass(cls, Encoding)):
        raise InputError(f"{origin} is not an encoding; expected a subclass of bench.encodings.Encoding, got {cls!r:.80}")
    info = getattr(cls, "info", None)
    if not isinstance(info, Info):
        raise InputError(f"{origin}: {cls.__name__} has no info; expected info = bench.encodings.Info(name=…, …)")
    validate_name(info.name, origin)
    if info.ranking not in RANKING_CLASSES:
        raise unknown(f"ranking of {origin}", str(info.ranking), RANKING_CLASSES)
    families = {one.info.family for one in classes().values()}
    if info.family not in families and get_close_matches(str(info.family).lower(), families, 1, 0.75):  # others are new ones
        raise unknown(f"family of {origin}", str(info.family), families)
    return cls


def validate_name(name: object, origin: str) -> None:
    """Check that a plugin can have this name.

    Raises:
        InputError: it is not a valid name, or is that of a built-in encoding.
    """
    if not (isinstance(name, str) and NAME.fullmatch(name)) or keyword.iskeyword(name):
        expected = "up to 64 of a-z, 0-9 and _, start with a letter and not be a keyword"
        raise InputError(f"{origin}: the name of an encoding must be {expected}, got {name!r}")
    if name in classes():
        raise InputError(f"{origin}: the name {name!r} is that of a built-in encoding; choose another")


def definition(cls: type) -> tuple[str, str]:
    """File and qualified name of a class, regardless of the name its module was imported under."""
    return str(Path(inspect.getfile(cls)).resolve()), cls.__qualname__


def encoding_in(module: ModuleType, name: str, origin: str) -> type[Encoding]:
    """Return a module's class of that name; without a name, the only encoding it defines.

    Raises:
        InputError: there is no such class, it is not an encoding, or there are several.
    """
    if name:
        if not hasattr(module, name):
            raise unknown(f"class of {origin}", name, [n for n, value in vars(module).items() if inspect.isclass(value)])
        cls = validate_class(getattr(module, name), f"{origin}:{name}")
        if is_unloaded(cls.__module__):
            raise InputError(f"{origin} imports {name} from {cls.__module__}.py; refer to it as {cls.__module__}.py:{name}")
        return cls
    own = [c for c in vars(module).values() if inspect.isclass(c) and c.__module__ == module.__name__]
    declared = {c.__name__: c for c in own if issubclass(c, Encoding) and "info" in vars(c)}
    if not declared:
        expected = "a subclass of bench.encodings.Encoding with an info of its own"
        raise InputError(f"{origin} defines no encoding; expected {expected}")
    if len(declared) > 1:
        one = next(iter(declared))
        raise InputError(f"{origin} defines {len(declared)} encodings ({', '.join(declared)}); name one, as in {origin}:{one}")
    return next(iter(declared.values()))


def module_of_file(path: Path) -> ModuleType:
    """Return a file as a module; read once per process."""
    resolved = path.resolve()
    if resolved not in loaded.files:
        name = f"lprime_plugin_{len(loaded.sources)}_{path.stem}"
        loaded.files[resolved], loaded.sources[name] = read_module(path, name)
    return loaded.files[resolved]


@cache
def entry_points() -> dict[str, list[importlib.metadata.EntryPoint]]:
    """Name → the entry points of that name; more than one is an error, reported when the name is used."""
    by_name: dict[str, list[importlib.metadata.EntryPoint]] = {}
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: (e.name, distribution(e))):
        by_name.setdefault(point.name, []).append(point)
    return by_name


def distribution(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def distributions(name: str) -> str:
    """The installed packages that provide an encoding, as text."""
    return " and ".join(map(distribution, entry_points().get(name, [])))


def load_installed(name: str) -> type[Encoding]:
    """Load and register the encoding that an installed package provides under a name.

    Raises:
        InputError: it fails to import, is not an encoding, has another name, or the name is taken or provided twice.
    """
    if name in loaded.plugins and loaded.plugins[name].reference is None:
        return loaded.plugins[name].cls
    points = entry_points()[name]
    if len(points) > 1:
        raise InputError(f"two plugins are named {name!r}: {distributions(name)}; uninstall one")
    origin = f"plugin {name!r} of {distribution(points[0])}"
    try:
        cls = points[0].load()
    except (Exception, SystemExit) as error:
        raise plugin_error(origin, error) from error
    validate_class(cls, origin)
    if cls.info.name != name:
        raise InputError(f"{origin} names itself {cls.info.name!r}; expected the same name in its entry point and its info")
    return register(Plugin(cls, distribution(points[0])))


def references(cls: type[Encoding]) -> tuple[str, ...]:
    """The references that another process must load before it can find an encoding by name, wrapped encodings included."""
    inner = references(cls.inner) if issubclass(cls, Wrapper) and cls.inner is not Encoding else ()
    outer = tuple(p.reference for p in loaded.plugins.values() if p.reference and p.cls in cls.__mro__)
    return tuple(dict.fromkeys(outer + inner))


def is_unloaded(module: str) -> bool:
    """Return whether a plugin's file imported a module from its folder; such modules are unloaded and part of its source."""
    return module not in loaded.sources and module not in sys.modules


def source_of(module: str) -> Source:
    """Return the files of a plugin's module, and its imports from elsewhere, as they were when this process loaded it."""
    if module not in loaded.sources:
        loaded.sources[module] = files_of(module, Path(inspect.getfile(sys.modules[module])))
    return loaded.sources[module]
