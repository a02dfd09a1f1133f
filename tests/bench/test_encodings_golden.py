"""Encodings against the numbers of the authors' code; see ``golden.py``."""

import pytest
import torch
from golden import Pass, assert_rows, build, cases, load, wave
from helpers import oracle

from bench.encodings.alibi import slopes


def test_inputs_are_generated_as_the_files_describe():
    q = wave(load("alibi")["inputs"]["q"], 12)
    torch.testing.assert_close(
        q.flatten()[:3], torch.tensor([0.29552021, 0.84147098, 0.99166481], dtype=q.dtype), atol=1e-8, rtol=0
    )
    assert q[0, 1, 0, 0].item() == pytest.approx(0.37878591, abs=1e-8)


# --- alibi


def test_alibi_slopes_equal_the_authors():
    for heads, expected in load("alibi")["slopes"].items():
        assert slopes(int(heads)) == pytest.approx(expected, abs=1e-8)


@oracle("alibi", against="ofirpress/attention_with_linear_biases, golden numbers")
def test_alibi_equals_the_authors():
    golden = load("alibi")
    for case in cases(golden["outputs"]):
        ours = Pass(build("alibi", {}), golden["inputs"], case["T"])
        assert_rows(ours.bias, case["bias_neox"], case["rows"])
        assert_rows(ours.output, case["output"], case["rows"])
