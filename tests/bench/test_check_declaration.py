"""``lprime check``: info, settings and names, by the rules of the board, so that they fail before the runs."""

from dataclasses import replace
from pathlib import Path

import pytest
from support import ROOT

from bench.check.checks import Fault
from bench.check.contract import check_declaration
from bench.check.contract import misspelt_names
from bench.check.run_checks import plugin_sources
from bench.check.subject import Subject
from bench.check.unusual import unusual_lines
from bench.encodings import Stage
from bench.plugins.registry import get_encoding

pytestmark = pytest.mark.usefixtures("fresh_registry")


def fault_of(subject: Subject) -> str:
    with pytest.raises(Fault) as caught:
        check_declaration(subject)
    return str(caught.value)


PLAIN = """
from bench.encodings import Encoding, Info
class Plain(Encoding):
    info = Info("plain", "none", "A title", "Ada", 2026, "https://a.org", formula="f", past="p", provenance="o")
    def __init__(self, setup, *, rate: float = 1.0, kind: str = "slow"):
        super().__init__(setup)
"""


def make_subject(folder: Path, text: str = "", other: str = "", around: str = "{}") -> Subject:
    """An encoding with valid texts, or with ``other`` in place of ``text``."""
    assert text in PLAIN
    (folder / "plain.py").write_text(PLAIN.replace(text, other) if text else PLAIN)
    return Subject(get_encoding(around.format(folder / "plain.py")))


TITLE = ("A title", "Either/or", "title contains a path separator: 'Either/or'")
NAME = ('"plain"', '"all"', "name is that of the group of all encodings: 'all")
LENGTHS = ('"o"', '"o", lengths="k" * 61', "lengths has 61 characters, more than 60: '")
REFUSED = [
    TITLE,
    ("A title", "A title [extended]", "title contains markdown or HTML ([): 'A title [extended]'"),
    ("A title", "Two  blanks", "title is not one line of words separated by single spaces: 'Two  blanks'"),
    ('"none"', '"a|b"', "family contains markdown or HTML (|): 'a|b'"),
    ("Ada", "Ada & Mary", "authors contains markdown or HTML (&): 'Ada & Mary'"),
    (
        "https://a.org",
        "https://a.org/wiki/RoPE_(ML)",
        "link is not an https link of plain characters: ",
    ),
    ("slow", "as slow as can be", "settings are not all numbers, True, False or words: {"),
    NAME,
    ('"plain"', '"quick"', "name is that of a suite: 'quick'"),
    ('"plain"', '"copying"', "name is that of a task: 'copying'"),
    (
        '"o"',
        '"o", source="official"',
        "source is none of official code, port, paper only, second-hand, own variant: 'off",
    ),
    ('"o"', '"o", source=None', "source is none of official code"),
    LENGTHS,
    ('"o"', '"o", lengths="k = L/2, " * 7', "lengths is not one line of text"),
    ('"o"', '"o", lengths="two\\nlines"', "lengths is not one line of text"),
    ('"o"', '"o", lengths="k = 16 (*our choice*)"', "lengths contains markdown or HTML (*)"),
    ('"o"', '"o", lengths=16', "lengths is not one line of text: 16"),
]
"""A text, what replaces it, and what is said of that."""


@pytest.mark.parametrize(
    ("around", "text", "other", "message"),
    [("{}", *case) for case in REFUSED]
    + [(around, *case) for around in ("{}(rate=2.0)", "randomised({})") for case in (TITLE, NAME, LENGTHS)],
)
def test_texts_that_the_board_refuses(tmp_path, around, text, other, message):
    assert message in fault_of(make_subject(tmp_path, text, other, around))


@pytest.mark.parametrize("around", ["{}", "{}(rate=2.0)", "randomised({})"])
@pytest.mark.parametrize("more", ['source="own variant"', 'lengths="clip = L/2, scaled"', 'lengths="k" * 60', 'lengths=""'])
def test_valid_sources_and_length_settings_pass(tmp_path, around, more):
    assert check_declaration(make_subject(tmp_path, '"o"', f'"o", {more}', around))


def test_a_member_is_used_by_properties_and_class_methods_too(tmp_path):
    members = """
    @property
    def table(self):
        return self.position(3)
    @classmethod
    def double(cls, x):
        return cls.embedded(x)
    def position(self, n):
        return n
    def embedded(self, x):
        return x
    def biass(self, q, k, at): ...
"""
    last = "        super().__init__(setup)\n"
    cls = make_subject(tmp_path, last, last + members).cls
    assert list(misspelt_names(cls)) == [("biass", "bias")]


def test_methods_that_a_base_class_uses_are_not_misspelt(tmp_path):
    base = "class Base(Encoding):\n    def prepare(self, at):\n        return self.position(at.distances)\n\n\n"
    cls = make_subject(tmp_path, "class Plain(Encoding)", base + "class Plain(Base)").cls
    cls.position, cls.biass = (lambda self, distances: distances), (lambda self, q, k, at: None)
    assert list(misspelt_names(cls)) == [("biass", "bias")]


def test_installed_packages_follow_the_same_rules(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests/plugins/lprime_recency"))
    (source,) = plugin_sources("lprime_recency.encoding:Recency")
    assert set(source.files) == {f"lprime_recency/{name}.py" for name in ("__init__", "curve", "encoding")}
    assert unusual_lines(source.files) == []
    subject = Subject(get_encoding("lprime_recency.encoding:Recency"))
    assert check_declaration(subject).startswith("recency")
    monkeypatch.setattr(subject.cls, "info", replace(subject.cls.info, title="<b>Recency"))
    assert "title contains markdown or HTML (<)" in fault_of(subject)


@pytest.mark.parametrize(
    ("share", "refused"),
    [("0.01", False), ("0.0101", True), ("5.0", True), ("0.0", True), ("-0.01", True), ("float('nan')", True)],
)
def test_the_share_of_a_further_stage_is_limited(tmp_path, share, refused):
    stage = f'provenance="o", ranking="longer")\n    from bench.encodings import Stage\n    stage = Stage(share={share})\n'
    subject = make_subject(tmp_path, 'provenance="o")\n', stage)
    if refused:
        assert "its further stage takes" in fault_of(subject) and "at most 0.01" in fault_of(subject)
    else:
        assert "ranking longer" in check_declaration(subject)


@pytest.mark.parametrize(
    ("stage", "ranking", "plugin", "fault"),
    [
        (Stage(), "longer", True, ""),
        (Stage(), "task-aware", False, ""),  # as finetuned(abacus)
        (Stage(), "standard", False, "its ranking is not 'longer'"),
        (Stage(0.02), "longer", False, "expected more than 0, at most 0.01"),
        (Stage(0.125, longer=False), "standard", False, ""),
        (Stage(0.125, longer=False), "standard", True, "rules of submissions do not allow"),
    ],
)
def test_stages_that_the_rules_allow(stage, ranking, plugin, fault):
    found = "; ".join(stage.faults(ranking, plugin))
    assert fault in found and bool(fault) == bool(found)
