"""Contract: info and settings are complete."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime

from bench import encodings, text_rules
from bench.encodings import Encoding, Info, Wrapper
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import plugin_files
from bench.result import SOURCE_KINDS
from bench.suites.suite import is_shipped
from tasks import InputError, catalogue

from .checks import Fault, encoding_check
from .subject import Subject, plugin_classes

MAX_TEXT = 500
MAX_LENGTHS = 60
"""Characters of ``lengths``, which is a column of the board."""
PLAIN_FIELDS = {"family": "", "title": "", "authors": "", "lengths": "/"}
"""Plain text in submissions and results → path separators allowed in it."""


@encoding_check(
    "declaration",
    expected="info is complete: texts on one line, an https link, a year, a ranking class, a kind of source, length settings "
    f"in at most {MAX_LENGTHS} characters; settings are keyword arguments with plain defaults; in a plugin, a name that is "
    "neither all nor that of a suite or a task, and: family, title, authors and lengths in plain "
    "words (no markdown, HTML or path separators), a link of plain characters, all files in one folder",
    advice="correct info in the encoding's class (bench.encodings.Info documents its fields) before the runs: it is part of "
    "the source hash. source says what the encoding was compared with, such as 'official code' or, for one "
    "of your own, 'own variant'; lengths gives each setting that is a length with its rule, such as 'k = L/2, scaled'",
)
def check_declaration(subject: Subject) -> str:
    if faults := declaration_faults(subject.cls):
        untouched = all("of the template" in fault for fault in faults)
        raise Fault("; ".join(faults), "write yours into info before the runs, which record them" if untouched else "")
    info = subject.cls.info
    if get_encoding(info.name).info != info:
        raise Fault(f"the name {info.name!r} loads another encoding")
    hooks = ", ".join(encodings.hooks(subject.cls)) or "no hook"
    return f"{info.name}, family {info.family}, ranking {info.ranking}; overrides {hooks}"


def declaration_faults(cls: type[Encoding]) -> list[str]:
    """Faults of info and settings; in a plugin, also by the rules of submissions."""
    info, plugins = cls.info, plugin_classes(cls)
    faults = info_faults(info, bool(plugins))
    if type(info.year) is not int or not 1986 <= info.year <= datetime.now(UTC).year + 1:
        faults.append(f"year is not a year of publication: {info.year!r:.60}")
    if info.source not in SOURCE_KINDS:
        faults.append(f"source is none of {', '.join(SOURCE_KINDS)}: {info.source!r:.60}")
    # A composition joins the texts of its parts, each after its name.
    parts = [part.rpartition(": ")[2] for part in str(info.lengths).split("; ")]
    if (longest := max(map(len, parts if issubclass(cls, Wrapper) else [str(info.lengths)]))) > MAX_LENGTHS:
        faults.append(f"lengths has {longest} characters, more than {MAX_LENGTHS}: {info.lengths!r:.60}")
    if cls.stage:
        faults += cls.stage.faults(info.ranking, bool(plugins))
    faults += settings_faults(cls)
    for plugin in plugins:
        faults += info_faults(plugin.info, True)
        try:
            plugin_files(plugin)
        except InputError as error:
            faults.append(str(error))
    return list(dict.fromkeys(faults))


def info_faults(info: Info, plugin: bool) -> list[str]:
    """Faults in the fields of an info; with ``plugin``, also by the rules of submissions."""
    return [f"{name} {fault}: {getattr(info, name)!r:.60}" for name, fault in field_faults(info, plugin)]


def field_faults(info: Info, plugin: bool) -> Iterator[tuple[str, str]]:
    for field in fields(Info):
        name, value = field.name, getattr(info, field.name)
        if value == field.default == "":
            continue
        if field.type in (str, "str"):
            if not isinstance(value, str) or not value.strip() or value != value.strip() or not value.isprintable():
                yield name, "is not one line of text"
            elif len(value) > MAX_TEXT:
                yield name, f"has {len(value)} characters, more than {MAX_TEXT}"
            elif plugin and name in PLAIN_FIELDS and (fault := text_rules.plain_text_fault(value, allowed=PLAIN_FIELDS[name])):
                yield name, fault
        elif field.type in (bool, "bool") and type(value) is not bool:
            yield name, "is neither True nor False"
    if plugin and (fault := name_fault(str(info.name).partition("(")[0])):  # without settings
        yield "name", fault
    if not str(info.link).startswith("https://"):
        yield "link", "does not begin with https://"
    elif plugin and (fault := text_rules.link_fault(str(info.link))):
        yield "link", fault


def name_fault(name: str) -> str | None:
    """What is wrong with the name of a plugin that commands would take for something else."""
    kinds = {"the group of all encodings": name == "all", "a suite": is_shipped(name), "a task": name in catalogue()}
    return next((f"is that of {kind}" for kind, taken in kinds.items() if taken), None)


def settings_faults(cls: type[Encoding]) -> list[str]:
    """Faults of settings, which must fit into a name such as ``rope(base=500000.0)``."""
    faults = []
    for parameter in list(inspect.signature(cls.__init__).parameters.values())[2:]:
        default = parameter.default
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            faults.append(f"argument {parameter.name} of __init__ is not keyword-only (put * before it)")
        elif type(default) not in (bool, int, float, str) or (type(default) is str and not re.fullmatch(r"\w+", default)):
            faults.append(f"setting {parameter.name} has no default that is a number, True, False or a word")
    return faults
