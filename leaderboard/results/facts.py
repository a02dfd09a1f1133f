"""What the bibliography says of built-in encodings: gloss, authors' code, fused attention, KV cache. Reading it needs no torch."""

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


def bibtex(name: str, info: Any) -> str:
    """A BibTeX entry of an encoding's paper.

    Arguments:
        info: has title, authors, year and link.
    """
    key = f"{base_of(name)}{info.year}"
    authors = " and ".join(part.strip() for part in info.authors.split(","))
    return f"@misc{{{key},\n  title = {{{info.title}}},\n  author = {{{authors}}},\n  year = {{{info.year}}},\n  url = {{{info.link}}}\n}}"
