"""``lprime list`` and ``lprime show``."""

import json
from dataclasses import replace

import pytest
from commands import printed, refused

from bench.measure.measure import measure_encoding
from bench.plugins.registry import get_encoding
from bench.result import SOURCE_KINDS, SOURCE_MEANINGS
from bench.suites.suite import shipped


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("encodings", {"nope", "rope", "finetuned(yarn)"}),
        ("tasks", {"copying", "addition"}),
        ("suites", {"language", "quick", "small", "standard"}),
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


@pytest.mark.parametrize("name", ["alibi", "sorting", "quick", "rope(base=500000)"])
def test_show_describes_one(name):
    (item,) = json.loads(printed("show", name, "--json"))
    assert item["name"].startswith(name[:-1])
    assert item["name"] in printed("show", name).replace("\n", "")


def test_show_prints_all_things_of_a_name():
    items = json.loads(printed("show", "language", "--json"))
    assert [item["kind"] for item in items] == ["task", "suite"]
    shown = printed("show", "language")
    assert all(item["title" if item["kind"] == "task" else "about"][:40] in shown for item in items)


def test_show_prints_the_recipe_of_a_suite_and_of_its_conditions(tmp_path):
    (suite,) = json.loads(printed("show", "small", "--json"))
    (condition,) = json.loads(printed("show", "small-steps-x2", "--json"))
    assert (suite["recipe"]["steps"], condition["recipe"]["steps"]) == (3000, 6000)
    assert "steps-x2" in suite["conditions"] and condition["conditions"] == []
    assert "addition hinted, L 4, L′ 32; steps 8000" in condition["tasks"]
    own = tmp_path / "own.yaml"
    own.write_text(shipped()["small"].read_text().replace("name: small", "name: own").replace("layers: 3", "layers: 2"))
    assert "layers: 2" in printed("show", own)
    assert "cannot read encoding" in refused("show", "small-mine.py"), "a file of an encoding, no condition of small"
    assert "did you mean 'steps-x2'?" in refused("show", "small-steps-x5")


def test_show_prints_all_settings_of_a_wrapped_encoding():
    assert "t5: buckets: 32, max distance: 128" in printed("show", "randomised(t5)")


def test_show_of_a_published_encoding_is_its_card_and_its_line_of_the_board():
    (item,) = json.loads(printed("show", "rope", "--json"))
    assert set(item["suite_small"]) >= {"rank", "score", "95\u00a0%"} and item["gloss"] and item["kv_cache"] == "yes"
    assert item["cost_on_small"][0]["step_ratio"] == pytest.approx(1.12, abs=0.01), "stored, not measured"
    assert printed("show", "rope", "--bibtex").startswith("@misc{rope2021,\n  title = {{RoFormer")


def test_show_says_how_sure_the_source_is_and_lists_length_settings(monkeypatch):
    def shown(name, **changes):
        cls = get_encoding(name)
        monkeypatch.setattr(cls, "info", replace(cls.info, **changes))
        (item,) = json.loads(printed("show", name, "--json"))
        assert {key: item[key] for key in changes} == changes
        return " ".join(printed("show", name).split())

    text = shown("abacus_scaled", source="second-hand", lengths="window 16, as published")
    assert f"source second-hand: {SOURCE_MEANINGS['second-hand']}" in text and "lengths window 16, as published" in text
    text = shown("abacus_scaled", source="port", lengths="")
    assert f"source port: {SOURCE_MEANINGS['port']}" in text and "lengths none" in text
    header, line = (
        next(x for x in printed("list", "encodings").splitlines() if x.startswith(w)) for w in ("enc", "abacus_scaled ")
    )
    assert line[header.index("source") :].startswith("port ")


def test_show_measures_the_card(monkeypatch):
    monkeypatch.setattr("bench.measure.card.QUIET", 9.0)
    monkeypatch.setattr("bench.measure.measure.measure_encoding", lambda cls, rounds: measure_encoding(cls, rounds=1))
    (item,) = json.loads(printed("show", "sinusoidal", "--json", "--measure"))
    assert item["properties"] == {
        "unique": True, "linear": True, "defined_past_train": True, "deterministic": True, "several_dimensions": True,
    }  # fmt: skip
    cost = item["cost_on_small"]
    assert [row["length"] for row in cost] == [35, 70, 140]
    assert all(row["step_ms"] > 0 and 0.2 < row["peak_ratio"] < 5 for row in cost)
    assert cost[0]["peak_mb"] < cost[1]["peak_mb"] < cost[2]["peak_mb"]
    assert item["caution"].startswith("the machine was busy")
