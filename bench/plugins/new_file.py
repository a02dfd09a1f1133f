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

NAME, CLASS = "my_encoding", "MyEncoding"
"""Names in the template."""


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
            example = "; expected one such as https://example.org/fading" if key == "link" else ""
            raise InputError(f"--{key.removesuffix('s')} {fault}, got {text!r:.80}{example}")
    registry.validate_name(name, f"{name}.py")
    path = Path(f"{name}.py")
    if path.exists():
        raise InputError(f"{path} already exists; move it away, or choose another name")
    if name in registry.Known():
        raise InputError(f"the name {name!r} is that of an installed plugin ({registry.distributions(name)}); choose another")
    module = importlib.util.find_spec(name)
    if name in sys.stdlib_module_names or (module and module.origin):  # a folder without code has no origin
        raise InputError(f"{path} would hide the Python module {name!r}; choose another name")
    text = (resources.files("bench.plugins") / "template.py").read_text(encoding="utf-8")
    text = text.replace(CLASS, class_name(name)).replace(NAME, name)
    for key, given in ({"title": default_title(name)} | texts).items():
        text = text.replace(f'{key}="{TEMPLATE[key]}"', f'{key}="{given}"')
    write_atomic(path, text)
    return path


def default_title(name: str) -> str:
    """``my_encoding`` → ``My encoding``."""
    return " ".join(name.replace("_", " ").split()).capitalize()


def class_name(name: str) -> str:
    """``my_encoding`` → ``MyEncoding``; avoids names that the template already uses."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    taken = camel in ("At", "Encoding", "Float", "Info", "Tensor") or keyword.iskeyword(camel)
    return f"{camel}Encoding" if taken else camel
