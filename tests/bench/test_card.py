"""Measured properties and costs, compared with what is known of classic encodings."""

from dataclasses import astuple

import pytest

from bench.measure.cost import extra_parameters, measure_costs
from bench.measure.properties import measure_properties
from bench.plugins.registry import get_encoding

# unique, linear, defined past the train length, deterministic, extensible to several dimensions
KNOWN = {
    "nope": (False, False, True, True, False),
    "sinusoidal": (True, True, True, True, True),  # a rotation takes PE(p) to PE(p + k)
    "learned": (True, False, False, True, True),  # a table of independent rows, which ends at L′
    "alibi": (True, True, True, True, True),
    "rope": (True, True, True, True, True),
    "t5": (False, True, True, True, True),  # far distances share a bucket
    "fire": (True, False, True, True, True),  # normalised by the position of the query from T₀ = 512 on
    "hard_alibi": (False, True, True, True, True),  # windows end near the query
    "interpolated(rope)": (True, True, True, True, True),  # as rope, at fractional ids
}


@pytest.mark.parametrize("name", KNOWN)
def test_properties_of_classic_encodings(name):
    assert astuple(measure_properties(get_encoding(name))) == KNOWN[name]


def test_randomised_positions_are_not_deterministic():
    assert measure_properties(get_encoding("randomised(rope)")).deterministic is False


def test_extra_parameters_count_the_encoding_only():
    assert extra_parameters(get_encoding("nope")) == 0
    assert extra_parameters(get_encoding("t5")) == 32 * 4, "32 buckets, 4 heads"
    assert extra_parameters(get_encoding("learned")) == 67 * 64, "one row per token, 67 at L′ = 32"


def test_costs_are_relative_to_nope():
    """PaTH solves T × T systems; NoPE compared with itself costs the same. Memory is counted exactly."""
    (same,), (more,) = (measure_costs(get_encoding(name), (1,), rounds=1) for name in ("nope", "path"))
    assert same.length == more.length == 35
    assert same.step_ratio == 1
    assert same.peak_ratio == pytest.approx(1, abs=0.02)
    assert more.peak_ratio > 1.2
    assert all(x > 0 for x in (same.step_ms, more.step_ms, more.step_ratio))
