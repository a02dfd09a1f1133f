"""What ``lprime verify`` would refuse of a plugin's words and source is told by ``lprime check``, before the runs are made."""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from support import ROOT

from bench import encodings, plugins
from bench.check.declared import declaration
from bench.check.subject import Fault, Subject


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    """Each test loads plugins anew."""
    monkeypatch.setattr(plugins, "loaded", plugins.Loaded())


def fault(subject: Subject) -> str:
    with pytest.raises(Fault) as caught:
        declaration(subject)
    return str(caught.value)


PLAIN = """
from bench.encodings import Encoding, Info
class Plain(Encoding):
    info = Info("plain", "none", "A title", "Ada", 2026, "https://a.org", formula="f", past="p", provenance="o")
    def __init__(self, setup, *, rate: float = 1.0, kind: str = "slow"):
        super().__init__(setup)
"""


def plain(folder: Path, text: str = "", other: str = "", around: str = "{}") -> Subject:
    """An encoding that says nothing unusual, or ``other`` in place of ``text``."""
    assert text in PLAIN
    (folder / "plain.py").write_text(PLAIN.replace(text, other) if text else PLAIN)
    return Subject(encodings.get(around.format(folder / "plain.py")))


@pytest.mark.parametrize("around", ["{}", "{}(rate=2.0)", "randomised({})"])
@pytest.mark.parametrize(
    ("text", "other", "message"),
    [
        ("A title", "Either/or", "title holds a path separator: 'Either/or'"),
        ("A title", "A title [extended]", "title holds markdown or HTML ([): 'A title [extended]'"),
        ("A title", "Two  blanks", "title is not one line of words, blanks single: 'Two  blanks'"),
        ('"none"', '"a|b"', "family holds markdown or HTML (|): 'a|b'"),
        ("Ada", "Ada & Mary", "authors holds markdown or HTML (&): 'Ada & Mary'"),
        ("https://a.org", "https://a.org/wiki/RoPE_(ML)", "link is no https link of plain characters: 'https://a.org/wiki/RoPE_"),
        ("slow", "as slow as can be", "settings are no settings: numbers, True, False or words: {"),
        ("super", "import einops; super", "imports einops, which it does not bring along"),
        ("class", "from transformers.models import llama\nclass", "imports transformers, which it does not bring along"),
        ("slow", "sl\u200bow", "plain.py holds an invisible character (U+200B)"),
    ],
)  # fmt: skip
def test_what_verify_would_refuse_is_told(tmp_path, monkeypatch, text, other, message, around):
    monkeypatch.setitem(sys.modules, "transformers", ModuleType("transformers"))
    monkeypatch.setitem(sys.modules, "transformers.models", SimpleNamespace(llama=None))
    assert message in fault(plain(tmp_path, text, other, around))


@pytest.mark.parametrize("around", ["{}", "{}(rate=2.0)", "randomised({})"])
def test_who_speaks_plainly_passes(tmp_path, around):
    assert declaration(plain(tmp_path, around=around))


def test_what_lies_beside_a_plugin_is_its_own(tmp_path):
    (tmp_path / "curve_of_plain.py").write_text("import numpy, jaxtyping, math, tasks\n")
    assert declaration(plain(tmp_path, "class", "import curve_of_plain\nclass"))
    (tmp_path / "curve_of_plain.py").write_text("def curve():\n    import scipy.special\n")
    plugins.loaded.files.clear()
    plugins.loaded.plugins.clear()
    assert "imports scipy, which" in fault(plain(tmp_path, "class", "import curve_of_plain\nclass"))


def test_an_installed_package_is_held_to_the_same(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests/plugins/lprime_recency"))
    found = Subject(encodings.get("lprime_recency.encoding:Recency"))
    assert declaration(found).startswith("recency")
    monkeypatch.setattr(found.cls, "info", replace(found.cls.info, title="<b>Recency"))
    assert "title holds markdown or HTML (<)" in fault(found)


@pytest.mark.parametrize("name", encodings.catalogue())
def test_built_ins_cite_papers_as_they_are_named(name):
    assert declaration(Subject(encodings.get(name)))


@pytest.mark.parametrize(
    ("share", "refused"),
    [("0.01", False), ("0.0101", True), ("5.0", True), ("0.0", True), ("-0.01", True), ("float('nan')", True)],
)
def test_a_further_stage_has_bounds(tmp_path, share, refused):
    stage = f'provenance="o", ranking="longer")\n    from bench.encodings import Stage\n    stage = Stage(share={share})\n'
    subject = plain(tmp_path, 'provenance="o")\n', stage)
    if refused:
        assert "its further stage takes" in fault(subject) and "expected at most 0.01" in fault(subject)
    else:
        assert "ranking longer" in declaration(subject)
