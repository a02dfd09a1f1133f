"""A file to start an encoding of one's own from: ``starter.py`` under another name."""

import importlib.util
import keyword
import sys
from importlib import resources
from pathlib import Path

from tasks import InputError

from .files import write_atomic

NAME, CLASS = "my_encoding", "MyEncoding"
"""Of the starter."""


def write(name: str, folder: Path = Path()) -> Path:
    """Write ``<name>.py``, a working encoding of that name.

    Raises:
        InputError: no name for an encoding, one that is taken, or a file that is there already.
    """
    from . import plugins

    known = plugins.Known()
    plugins.check_name(name, "lprime new")
    path = folder / f"{name}.py"
    if path.exists():
        raise InputError(f"{path} is there already; move it away, or choose another name")
    if name in known:
        raise InputError(f"the name {name!r} is that of an installed plugin ({plugins.distributions(name)}); choose another")
    module = importlib.util.find_spec(name)
    if name in sys.stdlib_module_names or (module and module.origin):  # a mere folder is no module to hide
        raise InputError(f"{path} would hide the Python module {name!r}; choose another name")
    text = (resources.files("bench") / "starter.py").read_text(encoding="utf-8")
    write_atomic(path, text.replace(CLASS, class_name(name)).replace(NAME, name))
    return path


def class_name(name: str) -> str:
    """``my_encoding`` → ``MyEncoding``; never a name that the file uses for something else."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    taken = camel in ("At", "Encoding", "Float", "Info", "Tensor") or keyword.iskeyword(camel)
    return f"{camel}Encoding" if taken else camel
