"""The card of properties, against what is known of the classic encodings."""

from dataclasses import astuple

import pytest

from bench import encodings
from bench.card import costs, extra_parameters, properties

# unique, linear, defined past the train length, deterministic, extensible to several dimensions
KNOWN = {
    "nope": (False, False, True, True, False),
    "sinusoidal": (True, True, True, True, True),  # a rotation takes PE(p) to PE(p + k)
    "learned": (True, False, False, True, True),  # a table of free rows, which ends at L′
    "alibi": (True, True, True, True, True),
    "rope": (True, True, True, True, True),
    "t5": (False, True, True, True, True),  # far distances share a bucket
}


@pytest.mark.parametrize("name", KNOWN)
def test_the_classics(name):
    assert astuple(properties(encodings.get(name))) == KNOWN[name]


def test_randomised_positions_are_not_deterministic():
    assert properties(encodings.get("randomised(rope)")).deterministic is False


def test_extra_parameters_are_those_of_the_encoding_alone():
    assert extra_parameters(encodings.get("nope")) == 0
    assert extra_parameters(encodings.get("t5")) == 32 * 4, "32 buckets, 4 heads"
    assert extra_parameters(encodings.get("learned")) == 103 * 64, "a row for each of 103 tokens at L′ = 50"


def test_a_step_that_does_more_costs_more():
    """PaTH makes T × T systems and solves them; NoPE beside itself costs the same. Memory is counted, so it is exact."""
    (same,), (more,) = (costs(encodings.get(name), (1,), rounds=1) for name in ("nope", "path"))
    assert same.length == more.length == 23
    assert same.peak_ratio == pytest.approx(1, abs=0.02)
    assert more.peak_ratio > 1.2
    assert all(x > 0 for x in (same.step_ms, same.step_ratio, more.step_ms, more.step_ratio))
