"""What pages say of the built-in encodings, read from ``bibliography.toml``: paper, code, provenance, gloss, formula.

Encodings with published runs of suite ``small`` declare formula, family and lengths in their file: its hash is in the results.
"""

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from .base import Info


@cache
def bibliography() -> dict[str, dict[str, Any]]:
    """Name → fields of ``Info``. A variant or composition has only those that differ."""
    return tomllib.loads((resources.files(__package__) / "bibliography.toml").read_text(encoding="utf-8"))


def published(name: str, *, like: Info | None = None, **declared: Any) -> Info:
    """The ``Info`` of a built-in encoding, from its entry in the bibliography and what its class declares.

    Arguments:
        like: of the encoding that this one varies; it has all fields that are given neither here nor in the bibliography.
        declared: fields that are not in the bibliography.
    """
    inherited = vars(like) if like else {}
    return Info(**inherited | bibliography()[name] | declared | {"name": name})
