"""Strict reading of YAML configuration files, validated by pydantic; errors are reported on one line."""

import os
import re
from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from bench.result import first_fault
from tasks import InputError, unknown

S = TypeVar("S", bound="Section")

EncodingName = Annotated[str, Field(min_length=1, max_length=1000)]


class Section(BaseModel):
    """Base of all parts of a configuration: unknown keys are errors, and values are not converted from other types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def known_keys(cls, content: Any) -> Any:
        """Refuse an unknown key, with the nearest match, before its misspelling is reported as a missing key."""
        for key in content if isinstance(content, dict) else ():
            if key not in cls.model_fields:
                raise unknown("key", key, cls.model_fields)
        return content


def unique(entries: list) -> list:
    """The entries of a list; raises ``ValueError`` if one is in it twice."""
    for entry, count in Counter(entries).items():
        if count > 1:
            raise ValueError(f"duplicate {entry!r}")
    return entries


Unique = AfterValidator(unique)


def yaml_files(package: str, folder: str) -> dict[str, Path]:
    """Name → path of the YAML files in a folder of a package."""
    root = Path(str(resources.files(package) / folder))
    return {path.stem: path for path in sorted(root.glob("*.yaml"), key=lambda path: path.stem)}


def is_path(name: str) -> bool:
    """Whether a configuration is given by its path, not by name."""
    return name.endswith((".yaml", ".yml")) or "/" in name


def yaml_file(name: str, kind: str, known: Mapping[str, Path]) -> Path:
    """Path of a configuration given by path or by the name of a known one.

    Raises:
        InputError: unknown name.
    """
    path = Path(name) if is_path(name) else known.get(name)
    if path is None:
        raise unknown(kind, name, [own] if os.path.isfile(own := f"{name}.yaml") else known)
    return path


def read_yaml(path: Path, kind: str, keys: str) -> dict[str, Any]:
    """Read a YAML file that contains a mapping.

    Arguments:
        kind: what the file is, for messages.
        keys: examples of its keys, for messages.

    Raises:
        InputError: the file cannot be read, is not YAML or not a mapping.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        near = get_close_matches(path.name, [other.name for other in path.parent.glob("*.y*ml") if other.is_file()], 1)
        hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near and isinstance(error, FileNotFoundError) else ""
        raise InputError(f"cannot read {kind} {path}: {error.strerror or error}{hint}") from None
    try:
        content = yaml.load(data.decode("utf-8"), StrictLoader)
    except Exception as error:  # PyYAML's own, or what its parsers of numbers and dates raise
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InputError(f"{kind} {path} is not valid YAML{line}: {problem}") from None
    if not isinstance(content, dict):
        raise InputError(f"{kind} {path} must be a mapping of keys such as {keys}, got {type(content).__name__}")
    return content


def validated(model: type[S], content: Any, where: str) -> S:
    """Validate ``content`` as a ``model``.

    Raises:
        InputError: the first error on one line, with the nearest match for an unknown key.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        given = "" if first["type"] in ("missing", "value_error") else f", got {first['input']!r:.80}"
        raise InputError(f"{where}: {first_fault(error)}{given}") from None


class StrictLoader(yaml.SafeLoader):
    """YAML loader with scalars of YAML 1.2 that refuses duplicate keys, of which PyYAML silently keeps the last."""

    yaml_implicit_resolvers: ClassVar[dict] = {}  # type: ignore[misc]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():  # anything else is refused below
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key.value!r}", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


for kind, pattern, first in (  # nearly the scalars of YAML 1.2: 1:30, yes, 010 and 2026-01-31 are text
    ("null", "null|~|", ["~", "n", ""]),
    ("bool", "true|false", ["t", "f"]),
    ("int", "[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    StrictLoader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"(?:{pattern})$"), first)
