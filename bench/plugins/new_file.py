"""Write the file of a new encoding, wrapper or task from a template in ``templates``."""

import json
from pathlib import Path

from bench.encodings import Encoding
from bench.files import render, write_atomic
from bench.text_rules import TEMPLATE, link_fault, plain_text_fault
from tasks import InputError, Task

from . import registry


def write_new_file(name: str, kind: str = "encoding", **texts: str) -> Path:
    """Write ``<name>.py`` in the current folder, which works as it is, and return its path.

    Arguments:
        kind: ``encoding``, ``wrapper`` or ``task``.
        texts: ``title``, ``authors`` and ``link`` of its ``info``; those that are not given stay as in the template,
            except that the title is made of the name.

    Raises:
        InputError: the name is invalid or taken, the file exists, or a text is not one plain line or an https link.
    """
    path, plugin = Path(f"{name}.py"), Task if kind == "task" else Encoding
    registry.validate_name(name, path.name, plugin)
    for key, text in texts.items():
        if fault := link_fault(text) if key == "link" else plain_text_fault(text):
            raise InputError(f"{key} {fault}, got {text!r:.80}")
    if path.exists():
        raise InputError(f"{path} already exists; move it away, or choose another name")
    if name in registry.entry_points(plugin):
        raise InputError(f"the name {name!r} belongs to an installed plugin; choose another")
    cls = "".join(part.capitalize() for part in [*name.split("_"), kind])  # with the kind: the templates import other names
    made = {"title": " ".join(name.replace("_", " ").split()).capitalize()}
    quoted = {key: json.dumps(text, ensure_ascii=False) for key, text in (TEMPLATE | made | texts).items()}
    write_atomic(path, render(f"plugins/templates/{kind}.py.j2", **quoted, name=name, **{"class": cls}))
    return path
