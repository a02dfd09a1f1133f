"""The files that a plugin consists of, and its errors in one line."""

import importlib
import importlib.util
import inspect
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from bench.encodings import Info
from tasks import InputError


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
