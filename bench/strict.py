"""Files that people write, read strictly: YAML without surprises, checked against a model, faults told on one line."""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from tasks import InputError, unknown

from .results import first_fault

S = TypeVar("S", bound="Section")


class Section(BaseModel):
    """A part of a suite: unknown keys are refused, values are not coerced from other types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def yaml_files(package: str, folder: str) -> dict[str, Path]:
    """Name → file of what travels in a folder of a package."""
    place = Path(str(resources.files(package) / folder))
    return {path.stem: path for path in sorted(place.glob("*.yaml"))}


def yaml_file(name: str, kind: str, known: Mapping[str, Path]) -> Path:
    """The file that is meant: a path, or one of those known by name.

    Raises:
        InputError: neither.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) or "/" in name else known.get(name)
    if path is None:
        raise unknown(kind, name, known)
    return path


def read_yaml(path: Path, kind: str, keys: str) -> dict[str, Any]:
    """The mapping that a YAML file holds.

    Arguments:
        kind: what the file is, and ``keys`` what stands in it, for messages.

    Raises:
        InputError: it cannot be read, is not YAML or not a mapping.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), StrictLoader)
    except OSError as error:
        hint = nearest_beside(path) if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"cannot read {kind} {path}: {error.strerror or error}{hint}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise InputError(f"{kind} {path} is not valid YAML{line}: {getattr(error, 'problem', None) or 'not text'}") from None
    except (ValueError, TypeError, RecursionError) as error:  # a key that is a list, nesting without end
        raise InputError(f"{kind} {path} is not valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{kind} {path} must be a mapping of keys such as {keys}, got {type(content).__name__}")
    return content


def nearest_beside(path: Path) -> str:
    """Which YAML file of the same folder may have been meant, as the end of a message."""
    beside = [other.name for pattern in ("*.yaml", "*.yml") for other in path.parent.glob(pattern) if other.is_file()]
    near = get_close_matches(path.name, beside, 1)
    return f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""


def validated(model: type[S], content: Any, where: str) -> S:
    """``content`` as a ``model``; faults become one line with the nearest match for an unknown key."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        faults = error.errors(include_url=False)
        # A misspelt key is two faults, one missing and one unknown; the unknown one says more.
        fault = next((f for f in faults if f["type"] == "extra_forbidden"), faults[0])
        if fault["type"] == "extra_forbidden":
            raise InputError(f"{where}: {unknown_key(model, fault['loc'])}") from None
        cause = fault.get("ctx", {}).get("error")
        if isinstance(cause, InputError):
            raise InputError(str(cause) if str(cause).startswith(where) else f"{where}: {cause}") from None
        given = "" if fault["type"] in ("missing", "value_error") else f", got {fault['input']!r:.80}"
        raise InputError(f"{where}: {first_fault(error)}{given}") from None


def unknown_key(model: type[BaseModel], place: tuple[int | str, ...]) -> InputError:
    """The error for an unknown key at ``place`` below ``model``, with the nearest known key."""
    known: type[BaseModel] = model
    for step in place[:-1]:
        if isinstance(step, str) and step in known.model_fields:
            inner: Any = known.model_fields[step].annotation
            while not (isinstance(inner, type) and issubclass(inner, BaseModel)):
                inner = inner.__args__[0]  # list[TaskSpec], Annotated[…]
            known = inner
    parent = ".".join(map(str, place[:-1]))
    return unknown(f"key{f' in {parent}' if parent else ''}", str(place[-1]), known.model_fields)


class StrictLoader(yaml.SafeLoader):
    """YAML in which a key may not stand twice (plain YAML silently keeps the last), and a value is what its tag says."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):  # what parsers of tags trip over
            if not isinstance(node, yaml.ScalarNode):
                raise
            kind = node.tag.rpartition(":")[2]
            raise yaml.constructor.ConstructorError(None, None, f"{node.value!r:.80} is no {kind}", node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():  # what is none is refused below
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} stands twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)
