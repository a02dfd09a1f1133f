"""Write the file of a new encoding: a copy of ``template.py`` under another name."""

import json
import keyword
from importlib import resources
from pathlib import Path

from bench.files import write_atomic
from bench.text_rules import TEMPLATE
from tasks import InputError

from . import registry


def write_new_encoding(name: str, **texts: str) -> Path:
    """Write ``<name>.py`` in the current folder, a working encoding of that name, and return its path.

    Arguments:
        texts: ``title``, ``authors`` and ``link`` of its ``info``; those that are not given stay as in the template,
            except that the title is made of the name.

    Raises:
        InputError: the name is invalid or taken, or the file exists.
    """
    path = Path(f"{name}.py")
    registry.validate_name(name, path.name)
    if path.exists():
        raise InputError(f"{path} already exists; move it away, or choose another name")
    if name in registry.entry_points():
        raise InputError(f"the name {name!r} belongs to an installed plugin; choose another")
    # The template imports these names.
    camel = "".join(part.capitalize() for part in name.split("_"))
    taken = camel in ("At", "Encoding", "Float", "Info", "Tensor") or keyword.iskeyword(camel)
    text = (resources.files("bench.plugins") / "template.py").read_text(encoding="utf-8")
    text = text.replace("MyEncoding", f"{camel}Encoding" if taken else camel).replace("my_encoding", name)
    title = " ".join(name.replace("_", " ").split()).capitalize()
    for key, given in ({"title": title} | texts).items():
        text = text.replace(f'{key}="{TEMPLATE[key]}"', f"{key}={json.dumps(given, ensure_ascii=False)}")
    write_atomic(path, text)
    return path
