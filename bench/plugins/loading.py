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
from typing import Any

from bench.encodings import Info
from tasks import InputError


@dataclass
class Source:
    """The files that a plugin consists of, as they were when it was loaded."""

    files: dict[str, bytes]
    """Path, relative to the folder that contains all of them → content."""
    uses: set[str]
    """Names of the modules that define what the plugin's module imports."""


def used_modules(module: ModuleType) -> set[str]:
    """Names of the modules that define the values in a module, and of the modules among them."""
    values = vars(module).values()
    return {str(getattr(value, "__module__", None) or getattr(value, "__name__", "")) for value in values}


def load_file(path: Path, name: str, noun: str) -> tuple[ModuleType, Source]:
    """Execute a file, which defines a ``noun``, as a module. Its source is this file alone: it imports installed packages only.

    Raises:
        InputError: the file cannot be read, with the nearest match; or it raises an error.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        near = get_close_matches(path.name, [p.name for p in path.parent.glob("*.py") if p.name != path.name], 1)
        hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise InputError(f"cannot read {noun} {path}: {error.strerror or error}{hint}") from None
    path = path.resolve()
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(compile(content, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise plugin_error(str(path), error) from error
    return module, Source({path.name: content}, used_modules(module))


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
def one_line_errors(cls: Any) -> Iterator[None]:
    """Report any error raised by the code of an encoding or a task in this block in one line.

    Raises:
        InputError: that code raised an error.
    """
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise plugin_error(getattr(cls, "info", cls).name, error, "raised an error", inspect.getfile(cls)) from error
