"""``lprime show``."""

import json
import re

import pytest
from commands import printed, refused

from bench.result import SOURCE_KINDS
from bench.suites.suite import shipped


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("encodings", {"nope", "rope", "finetuned(yarn)"}),
        ("tasks", {"copying", "addition"}),
        ("suites", {"text", "quick", "small", "standard"}),
    ],
)
def test_list_names_everything_of_a_kind(kind, some):
    items = json.loads(printed("list", kind, "--json"))
    assert some <= {item["name"] for item in items}
    assert {item["kind"] for item in items} == {kind[:-1]}
    table = printed("list", kind)
    assert all(item["name"] in table for item in items)


def test_list_describes_every_encoding():
    for item in json.loads(printed("list", "encodings", "--json")):
        assert item["family"] and item["title"] and item["year"] and item["link"].startswith("https://"), item["name"]
        assert item["ranking"] in ("standard", "longer", "task-aware")
        assert item["source"] in SOURCE_KINDS and len(item["lengths"]) < 300, item["name"]
        assert isinstance(item["hooks"], list) and isinstance(item["parameters"], int)
    by_name = {item["name"]: item for item in json.loads(printed("list", "--json"))}
    assert by_name["alibi"]["hooks"] == ["prepare", "bias"]
    assert by_name["t5"]["parameters"] == 32 * 4
    assert by_name["nope"]["hooks"] == []


@pytest.mark.parametrize(("name", "kinds"), [("sorting", "task"), ("rope(base=500000)", "encoding"), ("text", "task suite")])
def test_show_describes_all_things_of_a_name(name, kinds):
    items = json.loads(printed("show", name, "--json"))
    assert [item["kind"] for item in items] == kinds.split()
    shown = printed("show", name).replace("\n", "")
    assert all(item["name"] in shown for item in items)


def test_show_prints_the_recipe_of_a_suite(tmp_path):
    (suite,) = json.loads(printed("show", "small-steps-x2", "--json"))
    assert suite["recipe"]["steps"] == 6000
    assert suite["tasks"]["addition"] == "hinted, L 4, L′ 32" and suite["recipe of addition"] == {"steps": 8000}
    own = tmp_path / "own.yaml"
    own.write_text(shipped()["small"].read_text().replace("name: small", "name: own").replace("layers: 3", "layers: 2"))
    assert "layers: 2" in printed("show", own)
    assert "cannot read plugin" in refused("show", "small-mine.py")
    assert "did you mean 'small-steps-x2'?" in refused("show", "small-steps-x5")


def test_lists_fit_80_columns_and_use_the_boards_words():
    text = printed("list")
    assert max(map(len, text.splitlines())) <= 80
    assert "score bias" in text and "by content" in text and "contextual" not in text


def test_show_has_the_published_line_and_bibtex():
    text = printed("show", "alibi")
    assert "published, suite small" in text and "score: ." in text and "Trained at lengths up to L" in text
    entry = printed("show", "dape(kerple_log)", "--bibtex")
    assert re.fullmatch(r"@misc\{\w+,\n(  (title|author|year|url) = \{.+\},\n){4}\}\n", entry.strip() + "\n"), entry
    assert " and " in entry and "dape" in entry
    assert "expected an encoding, got 'small', which is a suite" in refused("show", "small", "--bibtex")
