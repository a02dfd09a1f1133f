"""Strict reading of YAML configuration files, validated by pydantic; errors are reported on one line."""

import os
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.result import first_fault
from tasks import InputError, unknown

S = TypeVar("S", bound="Section")

EncodingName = Annotated[str, Field(min_length=1, max_length=1000)]
MOST_BYTES = 2**16
"""Size limit of a file, which takes under a second to read; the shipped ones have at most 2 KiB."""


class Section(BaseModel):
    """Base of all parts of a configuration: unknown keys are errors, and values are not converted from other types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def refuse_duplicates(lists: Mapping[str, Sequence[Hashable]]) -> None:
    """Refuse an entry that is in a list twice.

    Arguments:
        lists: name of each list, for messages → its entries.

    Raises:
        ValueError: the first such entry.
    """
    for name, entries in lists.items():
        for entry, count in Counter(entries).items():
            if count > 1:
                raise ValueError(f"{name}: duplicate {entry!r}")


def yaml_files(package: str, folder: str) -> dict[str, Path]:
    """Name → path of the YAML files in a folder of a package."""
    root = Path(str(resources.files(package) / folder))
    return {path.stem: path for path in sorted(root.glob("*.yaml"))}


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
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(f"{kind} {path} has more than {MOST_BYTES:,} bytes, the limit")
        content = yaml.load(data.decode("utf-8"), StrictLoader)
    except OSError as error:
        hint = similar_file(path) if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"cannot read {kind} {path}: {error.strerror or error}{hint}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise InputError(f"{kind} {path} is not valid YAML{line}: {getattr(error, 'problem', None) or 'not text'}") from None
    except InputError:
        raise
    except (ValueError, TypeError, RecursionError) as error:  # TypeError: a list as a key
        raise InputError(f"{kind} {path} is not valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{kind} {path} must be a mapping of keys such as {keys}, got {type(content).__name__}")
    return content


def similar_file(path: Path) -> str:
    """Suggest a YAML file with a similar name in the same folder, as the end of a message."""
    names = [other.name for pattern in ("*.yaml", "*.yml") for other in path.parent.glob(pattern) if other.is_file()]
    near = get_close_matches(path.name, names, 1)
    return f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""


def validated(model: type[S], content: Any, where: str) -> S:
    """Validate ``content`` as a ``model``.

    Raises:
        InputError: the first error on one line, with the nearest match for an unknown key.
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        # A misspelt key is two errors, a missing and an unknown key; the latter is more helpful.
        first = next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])
        if first["type"] == "extra_forbidden":
            raise InputError(f"{where}: {unknown_key(model, first['loc'])}") from None
        cause = first.get("ctx", {}).get("error")
        if isinstance(cause, InputError):
            raise InputError(str(cause) if str(cause).startswith(where) else f"{where}: {cause}") from None
        given = "" if first["type"] in ("missing", "value_error") else f", got {first['input']!r:.80}"
        raise InputError(f"{where}: {first_fault(error)}{given}") from None


def unknown_key(model: type[BaseModel], location: tuple[int | str, ...]) -> InputError:
    """The error for an unknown key at ``location`` in ``model``, with the nearest known key."""
    known: type[BaseModel] = model
    for step in location[:-1]:
        if isinstance(step, str) and step in known.model_fields:
            known = next(models_in(known.model_fields[step].annotation), known)
    parent = ".".join(map(str, location[:-1]))
    return unknown(f"key{f' in {parent}' if parent else ''}", str(location[-1]), known.model_fields)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that an annotation such as ``list[TaskSpec]``, ``dict[str, Reading]`` or ``Stage | None`` names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from models_in(part)


class StrictLoader(yaml.SafeLoader):
    """YAML loader with the scalars of YAML 1.2: 010 is ten, and 1:30, ``yes`` and 2026-01-31 are text.

    It refuses duplicate keys (PyYAML silently keeps the last), and aliases, by which a kilobyte of text can mean gigabytes of
    values.
    """

    yaml_implicit_resolvers: ClassVar[dict] = {}  # type: ignore[misc]

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(
                None, None, f"the alias *{event.anchor} is not supported, repeat the value", event.start_mark
            )
        return super().compose_node(parent, index)  # type: ignore[return-value]

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):  # raised by the parsers of tags
            if not isinstance(node, yaml.ScalarNode):
                raise
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(
                None, None, f"{node.value!r:.80} is not a valid {kind}", node.start_mark
            ) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():  # anything else is refused below
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key.value!r}", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        text = node.value
        return float(text) if node.tag.endswith("float") else int(text, 0 if text[:2] in ("0o", "0x") else 10)


for kind, pattern, first in (  # YAML 1.2.2, section 10.3.2 (core schema); infinities and NaN stay text
    ("null", "null|Null|NULL|~|", ["~", "n", "N", ""]),
    ("bool", "true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    StrictLoader.add_implicit_resolver(f"tag:yaml.org,2002:{kind}", re.compile(f"(?:{pattern})$"), first)
    if kind in ("int", "float"):
        StrictLoader.add_constructor(f"tag:yaml.org,2002:{kind}", StrictLoader.construct_number)
