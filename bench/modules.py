"""A plugin's code as a module: a file by itself, with those beside it, or a module that Python finds."""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from tasks import InputError

from .imports import OURS, Source, files_of, find


def read_module(path: Path, name: str) -> tuple[ModuleType, Source]:
    """A file as a module of that name, made of the very bytes that are hashed.

    Raises:
        InputError: it cannot be read, or breaks.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        near = get_close_matches(path.name, [p.name for p in path.parent.glob("*.py")], 1)
        hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise InputError(f"cannot read encoding {path}: {error.strerror or error}{hint}") from None
    path = path.resolve()
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[module.__name__] = module
    try:
        with siblings(path.parent) as own:
            exec(compile(content, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        raise broken(str(path), error) from error
    source = files_of(path.stem.replace(".", "_"), path, content, alone=True)
    for other, file in own.items():  # those too whose names were put together at run time
        more = files_of(other, file, alone=True)
        source.files, source.outside = more.files | source.files, more.outside | source.outside
    return module, source


@contextmanager
def siblings(folder: Path) -> Iterator[dict[str, Path]]:
    """What stands in a folder can be imported, last of all, and is forgotten again: two plugins may both have a ``utils.py``.

    Yields:
        Name → file of what was imported from there, once the block is left.
    """
    before, paths, bytecode = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    found: dict[str, Path] = {}
    sys.path.append(str(folder))
    sys.dont_write_bytecode = True
    importlib.invalidate_caches()
    try:
        yield found
    finally:
        sys.path[:] = paths
        sys.dont_write_bytecode = bytecode
        for name in set(sys.modules) - before:
            file, here = getattr(sys.modules[name], "__file__", None), find(folder, name)
            if file and here and here.samefile(file) and name.partition(".")[0] not in OURS:
                found[name] = here
                del sys.modules[name]


def import_module(name: str, reference: str) -> ModuleType:
    """A module that Python finds, here too.

    Raises:
        InputError: there is none, or it breaks.
    """
    try:
        if importlib.util.find_spec(name.partition(".")[0]) is None:
            sys.path.append(str(Path.cwd()))  # the command does not look here by itself, unlike `python -m`
            importlib.invalidate_caches()
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise broken(reference, error) from error


def broken(origin: str, error: BaseException, what: str = "cannot be imported", file: str = "") -> InputError:
    """A plugin that breaks, with the last line that was under way.

    Arguments:
        file: where it stands, if ``origin`` does not say.
    """
    machinery = ("<", str(Path(__file__).parent), str(Path(importlib.__file__).parent))
    frames = traceback.extract_tb(error.__traceback__)
    elsewhere = [f for f in frames if not f.filename.startswith(machinery)]
    own = [f for f in frames if f.filename == (file or origin)]
    last = own[-1] if own else elsewhere[-1] if elsewhere else None
    where = f" ({Path(last.filename).name}, line {last.lineno})" if last else ""  # a syntax error says it by itself
    hint = "; a file has no package: import `name` for `.name`" if "no known parent package" in str(error) else ""
    text = " ".join(str(error).split())
    return InputError(f"{origin} {what}{where}: {type(error).__name__}{': ' if text else ''}{text}{hint}")


@contextmanager
def at_work(cls: type) -> Iterator[None]:
    """Whatever an encoding's own code raises here is told in one line.

    Raises:
        InputError: it broke.
    """
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise broken(cls.info.name, error, "breaks at work", inspect.getfile(cls)) from error  # type: ignore[attr-defined]
