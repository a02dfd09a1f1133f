"""Measured costs, and when they are measured."""

import pytest
import torch
from synthetic_results import a_card

from bench.measure import measure
from bench.measure.measure import extra_parameters, measure_costs
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash


def test_extra_parameters_count_the_encoding_only():
    assert extra_parameters(get_encoding("nope")) == 0
    assert extra_parameters(get_encoding("t5")) == 32 * 4, "32 buckets, 4 heads"
    assert extra_parameters(get_encoding("learned")) == 259 * 64, "one row per token, 259 at L′ = 128"


def test_attention_by_distance_is_that_of_the_formula():
    """ALiBi: softmax of −m_h·r. Others: weights that sum to 1, also if an encoding computes its attention or adds to values."""
    attention = {
        name: torch.tensor(measure.attention_by_distance(get_encoding(name)))
        for name in ("nope", "alibi", "rope", "cope", "stick_breaking", "shaw")
    }
    distances = torch.arange(measure.TOKENS)
    slopes = 2.0 ** -torch.arange(2, 9, 2)
    torch.testing.assert_close(attention["alibi"], (-slopes[:, None] * distances).softmax(1), rtol=5e-3, atol=0)
    torch.testing.assert_close(attention["nope"], torch.full((4, measure.TOKENS), 1 / measure.TOKENS), rtol=5e-3, atol=0)
    for name, weights in attention.items():
        torch.testing.assert_close(weights.sum(1), torch.ones(4), rtol=0, atol=5e-3, msg=name)


def test_costs_are_relative_to_nope():
    """PaTH solves T × T systems; NoPE compared with itself costs the same. Memory is counted exactly."""
    (same,), (more,) = (measure_costs(get_encoding(name), (1,), rounds=1) for name in ("nope", "path"))
    assert same.length == more.length == 35
    assert same.step_ratio == 1
    assert same.peak_ratio == pytest.approx(1, abs=0.02)
    assert more.peak_ratio > 1.2
    assert all(x > 0 for x in (same.step_ms, more.step_ms, more.step_ratio))


def test_cards_are_measured_once_per_source_and_length(monkeypatch):
    calls = []
    old = a_card(source_sha256=source_hash(get_encoding("alibi")))
    now = old.model_copy(update={"costs": [old.costs[0].model_copy(update={"length": 35})]})
    monkeypatch.setattr(measure, "measure_encoding", lambda cls: calls.append(cls.info.name) or now)
    assert measure.new_card("alibi", None) == now and measure.new_card("no_longer_there", None) is None
    assert calls == ["alibi"] and measure.new_card("alibi", now) is None, "as measured"
    for stale in (old, now.model_copy(update={"source_sha256": "x"})):
        assert measure.new_card("alibi", stale) == now
    assert calls == ["alibi"] * 3


def test_a_name_that_is_a_file_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("open('ran', 'w')")
    assert measure.new_card("evil.py", None) is None and measure.new_card("randomised(evil.py)", None) is None
    assert [p.name for p in tmp_path.iterdir()] == ["evil.py"]


def test_a_card_is_measured_on_one_thread_and_records_it():
    before = torch.get_num_threads()
    found = measure.measure_encoding(get_encoding("nope"), rounds=1)
    assert torch.get_num_threads() == before
    assert [c.length for c in found.costs] == [n * found.costs[0].length for n in (1, 2, 4)]
    assert all(c.peak_ratio == 1 for c in found.costs) and 0 < found.cpu_share <= 1.05 and found.threads == 1
