"""The rotary family against the numbers of the authors' code; see ``golden.py``."""

from dataclasses import replace

import pytest
import torch
from golden import Pass, assert_rows, build, cases, load, wave
from helpers import context, make_encoding, oracle, qkv
from torch import Tensor

from bench.encodings import At, catalogue
from bench.encodings.yarn import ramp_range, temperature

APART = torch.cat([torch.arange(0, 16, 2), torch.arange(1, 16, 2)])
"""Channels 2t and 2t + 1, the pairs of some sources, as t and t + d/2, ours."""


def apart(inputs: dict, tokens: int) -> dict:
    """The inputs of a golden file with channels in the order ``APART``."""
    given = {key: wave(spec, tokens)[..., APART] for key, spec in inputs.items()}
    return {key: {"values": x.flatten().tolist(), "shape": list(x.shape)} for key, x in given.items()}


def close(ours: Tensor, theirs: list, tolerance: float = 1e-7) -> None:
    torch.testing.assert_close(ours.detach().double(), torch.tensor(theirs, dtype=torch.float64), atol=tolerance, rtol=0)


# --- xpos


@oracle("xpos", "xpos_scaled", against="microsoft/torchscale, golden numbers")
def test_xpos_equals_torchscale():
    golden = load("xpos")
    published, scaled = (golden["variants"][name] for name in ("scale_base_512", "scale_base_11.5"))
    for variant, name in ((published, "xpos"), (scaled, "xpos_scaled"), (scaled, "xpos(scale_base=11.5)")):
        for case in cases(variant["outputs"]):
            for length in (case["T"], 100):  # the centre of the powers cancels
                encoding = build(name, {}, train_tokens=23)
                ours = Pass(encoding, apart(golden["inputs"], case["T"]), case["T"], announced_length=length)
                assert_rows(ours.scores, case["scores"], case["rows"])


# --- yarn, ntk, interpolated


def stretched(name: str, case: dict, longest: int):
    return make_encoding(name, 1, case["d"], train_tokens=case["L"], longest_tokens=longest)


@oracle("yarn", "yarn_dynamic", against="jquesnelle/yarn, golden numbers")
def test_yarn_equals_the_authors():
    golden = load("yarn")["outputs"]
    for case in golden["yarn"]:
        assert list(ramp_range(case["d"], 1e4, case["L"])) == case["ramp"]
        encoding = stretched("yarn", case, case["L_prime"])
        for length in (case["L"] + 1, case["L_prime"]):
            close(encoding.thetas(At(length)), case["inv_freq"])
            cos, sin = encoding.prepare(At(length, ids=torch.tensor([1])))
            close((cos.square() + sin.square()).sqrt(), torch.full_like(cos, case["mscale"]).tolist(), 1e-6)
    for case in golden["mscale"]:
        assert case["scale"] < 1 or temperature(case["scale"]) == pytest.approx(case["mscale"], abs=1e-8)
    for case in golden["dynamic"]:
        encoding = stretched("yarn_dynamic", case, 10**5)
        close(encoding.thetas(At(case["N"])), case["inv_freq"])
        cos, sin = encoding.prepare(At(case["N"], ids=torch.tensor(case["positions"])))
        close(cos[0], case["cos"], 2e-6)
        close(sin[0], case["sin"], 2e-6)


@oracle("ntk", "ntk_dynamic", against="jquesnelle/yarn, golden numbers")
def test_ntk_equals_the_author():
    golden = load("ntk")["outputs"]
    for case in golden["ntk"]:
        encoding = stretched("ntk", case, case["L_prime"])
        for length in (case["L"] + 1, case["L_prime"]):
            close(encoding.thetas(At(length)), case["inv_freq"])
    for case in golden["dynamic"]:
        close(stretched("ntk_dynamic", case, 10**5).thetas(At(case["N"])), case["inv_freq"])


@oracle("interpolated(rope)", against="jquesnelle/yarn, golden numbers")
def test_interpolated_rope_equals_the_port():
    for case in load("ntk")["outputs"]["interpolation"]:
        encoding, at = stretched("interpolated(rope)", case, 10**5), At(case["N"])
        ids = encoding.positions(torch.zeros(1, case["N"], dtype=torch.long), at)[case["positions"]]
        cos, sin = encoding.prepare(replace(at, ids=ids))
        close(cos[0], case["cos"], 2e-6)
        close(sin[0], case["sin"], 2e-6)


# --- rope_nope


@oracle("rope_nope", "rope_nope_scaled", against="transformers' cohere2, golden numbers")
def test_rope_nope_has_the_layers_and_windows_of_cohere2():
    golden = load("cohere2")
    assert str(golden["setting"]["default_sliding_window"]) in catalogue()["rope_nope"].info.lengths
    q, k, _ = qkv(1, 3)
    for layers, types in golden["outputs"]["layer_types"].items():
        encoding = make_encoding("rope_nope", 1, layers=int(layers))
        turned = [encoding.rotate(q, k, context(encoding, 3, 3, layer=layer))[0] is not q for layer in range(len(types))]
        ours = ["sliding_attention" if yes else "full_attention" for yes in turned]
        # Cohere 2 has no layer without positions in a model of fewer than four layers; here the last one is.
        assert ours == (types if len(types) >= 4 else [*types[:-1], "full_attention"])
    for case in golden["outputs"]["window"]:
        encoding = make_encoding(f"rope_nope_scaled(window={case['sliding_window']})", 1)
        visible = (encoding.prepare(At(case["T"], ids=torch.arange(case["T"])))[-1] == 0).tril().squeeze()
        found = [[row.nonzero().min().item(), row.nonzero().max().item()] for row in visible]
        assert found == case["first_and_last_key_of_each_query"]


def test_rope_nope_scaled_has_a_window_of_half_the_training_length():
    assert [make_encoding("rope_nope_scaled", 1, train_tokens=length).window for length in (10, 23)] == [5, 12]
    assert make_encoding("rope_nope", 1).bias(*qkv(1, 3)[:2], At(3)) is None, "no window binds as published"


# --- logn


def test_logn_past_the_training_length_equals_qwen():
    for case in load("logn")["outputs"]:
        encoding = make_encoding("logn(nope,only_past=True)", 1, train_tokens=case["train_length"])
        rows = case.get("i", range(1, len(case["scale"]) + 1))
        ones = torch.ones(1, 1, max(rows), 8, dtype=torch.float64)
        q, k = encoding.rotate(ones, ones, At(max(rows)))
        close(q[0, 0, [i - 1 for i in rows], 0], case["scale"])
        assert torch.equal(k, ones)


# --- selective_rope_gated


def test_temperatures_of_selective_rope_gated_equal_the_authors():
    for case in load("selective_rope_gated")["rfa_temperatures"]:
        thetas = make_encoding("selective_rope_gated", 1, case["d"]).prepare(At(1, ids=torch.arange(1)))
        close(thetas, case["temperature"], 1e-9)


# --- length settings


@pytest.mark.parametrize("name", ["rope", "xpos", "rope_nope"])
def test_length_settings_are_published_or_scaled(name):
    assert "as published" in catalogue()[name].info.lengths
    assert "scaled" in catalogue()[f"{name}_scaled"].info.lengths
