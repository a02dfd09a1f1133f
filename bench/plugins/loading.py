"""Load a plugin's code, list the files it consists of, and describe its errors."""

import importlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from bench.encodings import Info
from tasks import InputError

OURS = ("bench", "tasks", "leaderboard", "slurm", "lprime")
"""Packages of the harness, which are never part of a plugin's source."""


@dataclass
class Source:
    """The files that a plugin consists of, as they were when it was loaded."""

    root: Path
    """The folder that contains all of them."""
    files: dict[str, bytes]
    """Path relative to ``root`` → content."""
    uses: set[str]
    """Names of the modules, here and elsewhere, that define what the plugin's modules import."""

    @property
    def paths(self) -> list[Path]:
        return [self.root / path for path in self.files]


def used_modules(module: ModuleType) -> set[str]:
    """Names of the modules that define the values in a module, and of the modules among them."""
    values = vars(module).values()
    return {str(getattr(value, "__module__", None) or getattr(value, "__name__", "")) for value in values}


def load_file(path: Path, name: str) -> tuple[ModuleType, Source]:
    """Execute a file as a module of the given name. Its source is the file, and what it imports from its folder when loaded.

    Raises:
        InputError: the file cannot be read, with the nearest match; or it raises an error.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        near = get_close_matches(path.name, [p.name for p in path.parent.glob("*.py") if p.name != path.name], 1)
        hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise InputError(f"cannot read encoding {path}: {error.strerror or error}{hint}") from None
    path = path.resolve()
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        with importable(path.parent) as neighbours:
            exec(compile(content, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise plugin_error(str(path), error) from error
    files = {path.name: content}
    for other in neighbours:
        if other.__file__:
            files[Path(other.__file__).relative_to(path.parent).as_posix()] = Path(other.__file__).read_bytes()
    return module, Source(path.parent, files, set[str]().union(*map(used_modules, [module, *neighbours])))


@contextmanager
def importable(folder: Path) -> Iterator[list[ModuleType]]:
    """Make the modules of a folder importable, after all others, and unload them on exit: two plugins may both have a
    ``utils.py``.

    Yields:
        The modules imported from the folder; filled on exit.
    """
    paths, bytecode, neighbours = list(sys.path), sys.dont_write_bytecode, list[ModuleType]()
    earlier = {name: sys.modules.pop(name) for name in local_modules(folder)}
    sys.path.append(str(folder))
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield neighbours
    finally:
        sys.path[:] = paths
        sys.dont_write_bytecode = bytecode
        neighbours += [sys.modules.pop(name) for name in local_modules(folder)]
        sys.modules.update(earlier)


def local_modules(folder: Path) -> list[str]:
    """Names of the loaded modules that Python imports from a folder."""
    found = []
    for name, module in sys.modules.items():
        base, file = folder.joinpath(*name.split(".")), getattr(module, "__file__", None)
        place = file or next(iter(getattr(module, "__path__", [])), None)  # a folder without __init__.py
        if place in (f"{base}.py", str(base / "__init__.py"), str(base)) and name.partition(".")[0] not in OURS:
            found.append(name)
    return found


def package_files(module: str) -> tuple[Path, list[Path]]:
    """The folder and the Python files of the installed package that a module belongs to. Runs nothing.

    Raises:
        InputError: Python does not find it.
    """
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None or not spec.origin:
        raise InputError(f"Python finds no file of a module {module!r}")
    file = Path(spec.origin)
    return (file.parents[1], sorted(file.parent.rglob("*.py"))) if file.name == "__init__.py" else (file.parent, [file])


def importable_from(file: Path) -> list[Path]:
    """A plugin's file, and the files and folders beside it that it may import. Runs nothing."""
    folders = [path for path in file.parent.iterdir() if path.is_dir() and any(path.glob("*.py"))]
    return [file, *file.parent.glob("*.py"), *folders]


def plugin_error(origin: str, error: BaseException, what: str = "cannot be imported", file: str = "") -> InputError:
    """Describe an error raised by a plugin's code in one line, with the last line of the plugin in the traceback.

    Arguments:
        file: the plugin's file, if it is not ``origin``.
    """
    machinery = ("<", str(Path(__file__).parents[1]), str(Path(importlib.__file__).parent))
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename == (file or origin)] or [f for f in frames if not f.filename.startswith(machinery)]
    where = f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""  # a syntax error contains its own line
    text, hint = " ".join(str(error).split()), ""
    if given := re.fullmatch(r"Info\.__init__\(\) got an unexpected keyword argument '(\w+)'", text):
        near = get_close_matches(given[1], Info.__dataclass_fields__, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
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
