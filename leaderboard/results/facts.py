"""What is known of built-in encodings: gloss, authors' code, fused attention, KV cache, formula, file.

Reading it needs no torch.
"""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import bench


@cache
def sources() -> dict[str, str]:
    """File of ``bench/encodings`` → its text."""
    files = sorted((Path(bench.__file__).parent / "encodings").glob("*.[pt]*"))
    return {file.name: file.read_text(encoding="utf-8") for file in files}


@cache
def facts(file: str = "bibliography.toml") -> dict[str, Any]:
    """Encoding → fields of its entry in the bibliography, or its formula in LaTeX in ``formulas.toml``."""
    return tomllib.loads(sources()[file])


def base_of(name: str) -> str:
    """The first name in a composition, without settings: ``randomised`` of ``randomised(rope)``."""
    return name.partition("(")[0]


def fact(name: str, field: str) -> str:
    """A field of an encoding's entry, or of the entry of its wrapper or class; empty if neither has it."""
    known = facts()
    return str(known.get(name, {}).get(field) or known.get(base_of(name), {}).get(field, ""))


def sees_content(name: str) -> bool:
    """Whether an encoding, or one in its composition, has hooks that use tokens or hidden states."""
    return any(facts().get(word, {}).get("sees") for word in re.findall(r"\w+", name))


def formulas(name: str) -> list[str]:
    """The formula of an encoding in LaTeX; of a composition, the formula of its wrapper, then of what it wraps."""
    known, base = facts("formulas.toml"), base_of(name)
    inner = re.split(r",(?![^(]*\))", name.removeprefix(base)[1:-1])[0]
    return [known[base], *formulas(inner)] if base in known else []


def source_file(name: str) -> str:
    """Path in the repository of the file that defines a built-in encoding, or its wrapper; empty for others."""
    defines = re.compile(rf'published\(\s*"{re.escape(base_of(name))}"')
    return next((f"bench/encodings/{file}" for file, text in sources().items() if defines.search(text)), "")


FAMILIES = {
    "none": "none", "absolute": "absolute", "relative": "relative", "bias": "score bias", "rotary": "rotary",
    "scaling": "scaling", "contextual": "by content", "ids": "position ids", "training": "extra stage",
    "task-aware": "task-aware",
}  # fmt: skip
"""Family → its title, on pages and on the command line."""
FACTS = {"gloss": "idea", "code": "authors' code", "fused": "fused attention", "cache": "KV cache", "checkpoint": "model"}
"""Field of the bibliography → its name on pages."""
SOURCES = {"second-hand": "not checked"}
"""What an encoding was compared with → how pages say it."""
CLASSES = {
    "standard": "Trained at lengths up to L",
    "longer": "Saw longer lengths in training",
    "task-aware": "Uses what tokens mean",
}
"""Ranking class → heading of its table."""


def class_title(name: str) -> str:
    return CLASSES.get(name, f"Ranking class {name}")
