"""Names that the shell completes. They are read from files, because importing encodings takes seconds."""

import re
from importlib.util import find_spec
from pathlib import Path


def files_of(package: str, pattern: str) -> list[Path]:
    """The files of a package's folder, sorted, without importing the package's modules."""
    places = getattr(find_spec(package), "submodule_search_locations", None) or []
    return sorted(path for place in places for path in Path(place).glob(pattern))


def suite_names() -> list[str]:
    return [path.stem for path in files_of("bench", "suites/*.yaml")]


def complete_suite(incomplete: str) -> list[str]:
    return matching(incomplete, [*suite_names(), *map(str, Path().glob("*.yaml"))])


def complete_task(incomplete: str) -> list[str]:
    names = [
        found for path in files_of("tasks", "*.py") for found in re.findall(r'^    name = "(\w+)"', path.read_text(), re.M)
    ]
    return matching(incomplete, names)


def complete_encoding(incomplete: str) -> list[str]:
    """Built-in encodings, and files of the current folder."""
    texts = (path.read_text(encoding="utf-8") for path in files_of("bench", "encodings/bibliography.toml"))
    names = re.findall(r"^\[([\w-]+)\]$", "\n".join(texts), re.M)
    return matching(incomplete, [*names, *map(str, Path().glob("*.py"))])


def complete_encodings(incomplete: str) -> list[str]:
    """Encodings, and groups of them."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in files_of("bench", "encodings/*.py"))
    groups = ["all", *(f"family:{family}" for family in re.findall(r'\bfamily="([\w-]+)"', text))]
    return [*complete_encoding(incomplete), *matching(incomplete, groups)]


def matching(incomplete: str, names: list[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})
