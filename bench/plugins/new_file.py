"""Write the file of a new encoding: a copy of ``template.py`` under another name."""

import importlib.util
import keyword
import sys
from importlib import resources
from pathlib import Path

from bench.files import write_atomic
from bench.text_rules import TEMPLATE, link_fault, plain_text_fault
from tasks import InputError

from . import registry


def write_new_encoding(name: str, **texts: str) -> Path:
    """Write ``<name>.py`` in the current folder, a working encoding of that name, and return its path.

    Arguments:
        texts: ``title``, ``authors`` and ``link`` of its ``info``; those that are not given stay as in the template,
            except that the title is made of the name.

    Raises:
        InputError: the name is invalid or taken, a text is not one that ``lprime check`` would accept, or the file exists.
    """
    for key, text in texts.items():
        if fault := (link_fault if key == "link" else plain_text_fault)(text):
            raise InputError(f"--{key.removesuffix('s')} {fault}, got {text!r:.80}")
    path = Path(f"{name}.py")
    registry.validate_name(name, path.name)
    if path.exists():
        raise InputError(f"{path} already exists; move it away, or choose another name")
    module = importlib.util.find_spec(name)
    if name in registry.entry_points() or name in sys.stdlib_module_names or (module and module.origin):
        raise InputError(f"the name {name!r} is that of a Python module or an installed plugin; choose another")
    # The template imports these names.
    camel = "".join(part.capitalize() for part in name.split("_"))
    taken = camel in ("At", "Encoding", "Float", "Info", "Tensor") or keyword.iskeyword(camel)
    text = (resources.files("bench.plugins") / "template.py").read_text(encoding="utf-8")
    text = text.replace("MyEncoding", f"{camel}Encoding" if taken else camel).replace("my_encoding", name)
    for key, given in ({"title": default_title(name)} | texts).items():
        text = text.replace(f'{key}="{TEMPLATE[key]}"', f'{key}="{given}"')
    write_atomic(path, text)
    return path


def default_title(name: str) -> str:
    """``my_encoding`` → ``My encoding``."""
    return " ".join(name.replace("_", " ").split()).capitalize()
