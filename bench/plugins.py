"""Encodings that are not built in: of a file, of a package that can be imported, or announced by one that is installed.

::

    my_encoding.py, folder/file.py:Class, package.module:Class     references, see ``references.py``
    recency                                                        an installed package's entry point ``lprime.encodings``

Whatever the way, an encoding is known by its own ``info.name`` as soon as it is loaded, and its results are filed under it. A
process loads a plugin once; each worker does so for itself. A file may import others from its folder while it is loaded: they
are its own, and no other plugin meets them.
"""

import importlib.metadata
import inspect
import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import ModuleType

from tasks import InputError, unknown

from .encodings import Encoding, Info, Wrapper, classes
from .encodings.compose import STRICTNESS
from .imports import Source, files_of
from .modules import broken, import_module, read_module
from .references import is_file, parts, replaced

GROUP = "lprime.encodings"
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True)
class Plugin:
    """An encoding from elsewhere."""

    cls: type[Encoding]
    origin: str
    """As a user knows it."""
    reference: str | None = None
    """How another process finds it; None if by its name, because it is installed."""


@dataclass
class Loaded:
    """What this process has loaded."""

    plugins: dict[str, Plugin] = field(default_factory=dict)
    """By the encoding's name."""
    files: dict[Path, ModuleType] = field(default_factory=dict)
    sources: dict[str, Source] = field(default_factory=dict)
    """Of each module, as it was when it was loaded."""


loaded = Loaded()


class Known(Mapping[str, type[Encoding]]):
    """Name → class: built-ins, what was loaded, and what is installed, which is imported when it is asked for."""

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


def spelled(text: str) -> str:
    """The name of an encoding with the references in it loaded, and their encodings' names in their place.

    Raises:
        InputError: a reference that leads nowhere, breaks on import or is no encoding.
    """
    return replaced(text, lambda reference: load(reference).info.name)


def load(reference: str) -> type[Encoding]:
    """The encoding of a reference.

    Raises:
        InputError: no such file, module or class, one that breaks on import, is no encoding, or has a name that is taken.
    """
    place, name = parts(reference)
    if is_file(reference):
        path = Path(place)
        module = module_of_file(path)
        cls, absolute = pick(module, name, place), str(path.resolve())
    else:
        module = import_module(place, reference)
        cls, absolute = pick(module, name, place), place
    return register(Plugin(cls, reference, f"{absolute}:{cls.__qualname__}"))


def register(plugin: Plugin) -> type[Encoding]:
    """Make a plugin known by its name; the class that has it from now on.

    Raises:
        InputError: no encoding, or its name cannot be used or is taken; two plugins of one name are both named.
    """
    cls, name = check(plugin.cls, plugin.origin), plugin.cls.info.name
    rival = loaded.plugins.get(name)
    if rival is None and plugin.reference is not None and name in entry_points():
        try:
            rival = Plugin(load_installed(name), distributions(name))
        except InputError as broken:
            raise InputError(f"two plugins are named {name!r}: {plugin.origin}, and one that is installed: {broken}") from None
    if rival is not None:
        if place(rival.cls) != place(cls):
            raise InputError(f"two plugins are named {name!r}: {rival.origin} and {plugin.origin}; rename one in its info")
        return rival.cls  # the same class by another way: a file of a package that is installed for development, say
    loaded.plugins[name] = plugin
    source_of(cls.__module__)
    return cls


def check(cls: object, origin: str) -> type[Encoding]:
    if not (inspect.isclass(cls) and issubclass(cls, Encoding)):
        raise InputError(f"{origin} is no encoding; expected a subclass of bench.encodings.Encoding, got {cls!r:.80}")
    info = getattr(cls, "info", None)
    if not isinstance(info, Info):
        raise InputError(f"{origin}: {cls.__name__} declares nothing; expected info = bench.encodings.Info(name=…, …)")
    check_name(info.name, origin)
    if info.ranking not in STRICTNESS:
        raise unknown(f"ranking of {origin}", str(info.ranking), STRICTNESS)
    return cls


def check_name(name: object, origin: str) -> None:
    """
    Raises:
        InputError: no name for a plugin, or a built-in's.
    """
    if not (isinstance(name, str) and NAME.fullmatch(name)) or keyword.iskeyword(name):
        raise InputError(
            f"{origin}: an encoding's name is of a-z, 0-9 and _, starts with a letter, and is no keyword, got {name!r}"
        )
    if name in classes():
        raise InputError(f"{origin}: the name {name!r} is that of a built-in encoding; choose another")


def place(cls: type) -> tuple[str, str]:
    """Where a class is defined, whatever its module was imported as."""
    return str(Path(inspect.getfile(cls)).resolve()), cls.__qualname__


def pick(module: ModuleType, name: str, origin: str) -> type[Encoding]:
    """A module's class of that name; without a name, the only encoding it defines."""
    if name:
        if not hasattr(module, name):
            near = get_close_matches(name, vars(module), 1)
            raise InputError(f"{origin} has no {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        cls = check(getattr(module, name), f"{origin}:{name}")
        if forgotten(cls.__module__):
            raise InputError(f"{origin} has {name} from {cls.__module__}, beside it; name it as in {cls.__module__}.py:{name}")
        return cls
    own = {
        n: c
        for n, c in vars(module).items()
        if inspect.isclass(c) and issubclass(c, Encoding) and c.__module__ == module.__name__
    }
    declared = {n: c for n, c in own.items() if "info" in vars(c)}
    if not declared:
        raise InputError(
            f"{origin} defines no encoding; expected a subclass of bench.encodings.Encoding with an info of its own"
        )
    if len(declared) > 1:
        one = next(iter(declared))
        raise InputError(f"{origin} defines {len(declared)} encodings ({', '.join(declared)}); name one, as in {origin}:{one}")
    return next(iter(declared.values()))


def module_of_file(path: Path) -> ModuleType:
    """A file as a module, read once."""
    place = path.resolve()
    if place not in loaded.files:
        name = f"lprime_plugin_{len(loaded.files)}_{path.stem}"
        loaded.files[place], loaded.sources[name] = read_module(path, name)
    return loaded.files[place]


# --- what is installed


@cache
def entry_points() -> dict[str, list[importlib.metadata.EntryPoint]]:
    """Name → the entry points that announce it; more than one is one too many."""
    found: dict[str, list[importlib.metadata.EntryPoint]] = {}
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: (e.name, distribution(e))):
        found.setdefault(point.name, []).append(point)
    return found


def distribution(point: importlib.metadata.EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def distributions(name: str) -> str:
    """Who announces an installed encoding."""
    return " and ".join(map(distribution, entry_points().get(name, [])))


def load_installed(name: str) -> type[Encoding]:
    """The encoding that an installed package announces under a name.

    Raises:
        InputError: it breaks on import, is no encoding or has another name, the name is taken, or announced twice.
    """
    if name in loaded.plugins and loaded.plugins[name].reference is None:
        return loaded.plugins[name].cls
    points = entry_points()[name]
    if len(points) > 1:
        raise InputError(f"two plugins are named {name!r}: {distributions(name)}; uninstall one")
    origin = f"plugin {name!r} of {distribution(points[0])}"
    check_name(name, origin)
    try:
        cls = points[0].load()
    except (Exception, SystemExit) as error:
        raise broken(origin, error) from error
    check(cls, origin)
    if cls.info.name != name:
        raise InputError(f"{origin} names itself {cls.info.name!r}; expected the same name in its entry point and its info")
    return register(Plugin(cls, distribution(points[0])))


# --- what other parts of the harness ask


def references(cls: type[Encoding]) -> tuple[str, ...]:
    """What another process has to load before it can find an encoding, or what it wraps, by name."""
    inner = references(cls.inner) if issubclass(cls, Wrapper) and cls.inner is not Encoding else ()
    mine = tuple(p.reference for p in loaded.plugins.values() if p.reference and p.cls in cls.__mro__)
    return tuple(dict.fromkeys(mine + inner))


def forgotten(module: str) -> bool:
    """Was it imported from beside a plugin's file? Then it is gone again, and among what that file is made of."""
    return module not in loaded.sources and module not in sys.modules


def source_of(module: str) -> Source:
    """The files of a plugin's module, and what it takes from elsewhere, as they were when this process loaded it."""
    if module not in loaded.sources:
        loaded.sources[module] = files_of(module, Path(inspect.getfile(sys.modules[module])))
    return loaded.sources[module]
