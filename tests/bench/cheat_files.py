"""The cheats in ``tests/plugins/cheats``: by name, as subjects of checks, and as text."""

import re
from functools import cache
from pathlib import Path

import pytest
import torch
from support import ROOT, suite_dict

from bench.check.checks import Fault, load_checks
from bench.check.subject import Subject
from bench.plugins.registry import get_encoding
from bench.suites.suite import Suite, validated

torch.set_num_threads(1)
CHEATS = ROOT / "tests/plugins/cheats"
CHECKS = {check.name: check for check in load_checks()}
TINY = validated(Suite, suite_dict(model={"layers": 3}, tasks=[
    {"task": "copying", "variant": "repeat", "train_length": 4},
    {"task": "addition", "variant": "reversed", "train_length": 2},
]), "tiny")  # fmt: skip
DEEP = validated(Suite, suite_dict(name="deep", model={"layers": 4}), "deep")
"""A model with another number of layers, as the shipped suites have."""


@cache
def reference(name: str) -> str:
    """Of a cheat, by its class; other names are built in."""
    files = [path for path in CHEATS.glob("*.py") if f"class {name}(" in path.read_text()]
    return f"{files[0]}:{name}" if files else name


def make_subject(name: str) -> Subject:
    """A cheat or a built-in encoding, on small suites."""
    return Subject(get_encoding(reference(name)), suite=TINY, other_suites=[DEEP])


def fault_of(check: str, subject: object) -> str:
    with pytest.raises(Fault) as caught:
        CHECKS[check].run(subject)
    return str(caught.value)


TEXTS = {
    '"{1001 numbers}"': ", ".join(map(str, range(1001))).replace("0, ", "0,\n        "),
    '"{a number of 30 digits}"': "1" * 30,
    '"{6001 letters}"': "\n".join(['"""', *["a" * 60] * 100, '"""']),
    "{variation selector}": "\ufe01",
    "{Hangul filler}": "\u3164",
    "{200 blanks}": " " * 200,
    "kqzvbnma = enum.auto()": "\n    ".join(f"weight{n:02}{'x' * 100} = enum.auto()" for n in range(80)),
}


def source_of(name: str) -> dict[str, bytes]:
    """The text of one cheat, with the beginning of its file."""
    text = Path(reference(name).rpartition(":")[0]).read_text()
    start = re.search(r"^class |^# ---", text, re.MULTILINE).start()
    body = re.search(rf"^class {name}\(.*?(?=^class |^# ---|\Z)", text, re.MULTILINE | re.DOTALL)[0]
    text = text[:start] + "".join(part for part in helpers(text) if part.split("(")[0].removeprefix("class ") in body) + body
    for mark, value in TEXTS.items():
        text = text.replace(mark, value)
    return {"cheat.py": text.encode(), "cheat_base.py": b""}


def helpers(text: str) -> list[str]:
    """The classes of a file that are no cheats."""
    return re.findall(r"^class \w+\((?!Cheat).*?(?=^class |^# ---|\Z)", text, re.MULTILINE | re.DOTALL)
