"""What the bibliography says of built-in encodings: gloss, authors' code, fused attention, KV cache.

Reading it needs no torch.
"""

import tomllib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@cache
def facts() -> dict[str, dict[str, Any]]:
    """Encoding → fields of its entry in ``bench/encodings/bibliography.toml``."""
    spec = find_spec("bench")
    places = spec.submodule_search_locations if spec and spec.submodule_search_locations else []
    return tomllib.loads((Path(places[0]) / "encodings" / "bibliography.toml").read_text(encoding="utf-8"))


def base_of(name: str) -> str:
    """The first name in a composition, without settings: ``randomised`` of ``randomised(rope)``."""
    return name.partition("(")[0]


def fact(name: str, field: str) -> str:
    """A field of an encoding's entry, or of the entry of its wrapper or class; empty if neither has it."""
    known = facts()
    return str(known.get(name, {}).get(field) or known.get(base_of(name), {}).get(field, ""))


FAMILIES = {
    "none": "none", "absolute": "absolute", "relative": "relative", "bias": "score bias", "rotary": "rotary",
    "scaling": "scaling", "contextual": "by content", "ids": "position ids", "training": "extra stage",
    "task-aware": "task-aware",
}  # fmt: skip
"""Family → its title, on pages and on the command line."""
CLASSES = {
    "standard": "Trained at lengths up to L",
    "longer": "Saw longer lengths in training",
    "task-aware": "Uses what tokens mean",
}
"""Ranking class → heading of its table."""


def family_title(name: str) -> str:
    return FAMILIES.get(name, name)


def class_title(name: str) -> str:
    return CLASSES.get(name, f"Ranking class {name}")
