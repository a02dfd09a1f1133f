"""Encodings against the numbers that the authors' own code gives on fixed inputs; see ``golden.py``.

``TABLE`` holds the encodings whose hooks are compared as they are. What needs more than a row has a test of its own below.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from golden import HEAD_WIDTH, Pass, assert_rows, build, cases, load, wave
from helpers import context, make_encoding, oracle, qkv
from torch import Tensor

from bench import encodings
from bench.encodings import At
from bench.encodings.alibi import slopes
from bench.encodings.rope import frequencies
from bench.encodings.sinusoidal import sinusoids
from bench.encodings.t5 import buckets
from bench.encodings.yarn import ramp_range, temperature


class Row(NamedTuple):
    name: str
    file: str
    """Name of the file, and of a variant."""
    compared: str
    """Attributes of ``Pass``, each followed by ``=`` and its name in the file if it has another there."""
    names: dict[str, str | Callable[[dict[str, Tensor]], Tensor]] = {}
    """Parameter here → parameter there, or a function of the parameters there."""
    sizes: dict[str, int] = {}
    channels: Sequence[int] = range(HEAD_WIDTH)
    """The channels there in the order in which they are ours."""


KERPLE = {"a": "bias_a", "p": "bias_p"}
FOX = {"weight": "fgate_proj.weight", "offset": "fgate_proj.bias"}
CABLE = {"weight": lambda p: -p["h_attn.weight"], "offset": lambda p: -p["h_attn.bias"]}
PATH = {
    "down": "w_proj.0.weight",
    "up": "w_proj.1.weight",
    "taps": "w_conv1d.weight",
    "strength": "bt_proj.weight",
    "offset": "bt_proj.bias",
}
SELECTIVE = {"down": "phi_proj.0.weight", "up": "phi_proj.1.weight"}
GATED = {"log_step": "phi_bias", "gate": "phase_gate_proj.weight", "gate_bias": "phase_gate_proj.bias"}
ASENTMAX = {
    f"{x}{end}": f"attn_scale_{x}_proj.{kind}" for x in ("beta", "gamma") for end, kind in (("", "weight"), ("_offset", "bias"))
}
SHAW = {  # their middle row is distance 0, and earlier rows are larger distances
    "keys": lambda p: p["relative_positions_keys/embeddings"].tensor_split(2)[0].flip(0),
    "values": lambda p: p["relative_positions_values/embeddings"].tensor_split(2)[0].flip(0),
}
FIRE = {"w1": "mlp.0.weight", "b1": "mlp.0.bias", "w2": "mlp.2.weight", "c": "c", "m": "L_multiplier"}
COPE = {"table": lambda p: p["pos_emb"][0].T}
DAPE = {"w1": "mlp2.0.weight", "b1": "mlp2.0.bias", "w2": "mlp2.2.weight", "b2": "mlp2.2.bias"}
DAPE_KERPLE = DAPE | {"base.a": "bias_a", "base.p": "bias_p"}
BAM = {name: name for name in ("log_scale", "shape", "place")}
REPO = {name: lambda p, name=name: p[f"{name}_map.weight"][None] for name in ("gate", "content", "final")}
APART = [*range(0, 16, 2), *range(1, 16, 2)]
"""Channels 2t and 2t + 1, the pairs of some sources, as t and t + d/2, ours."""
SWAPPED = [*range(8, 16), *range(8)]
"""A rotation by −angle is one by the angle with the channels of each pair swapped."""

TABLE = [
    Row("alibi", "alibi", "bias=bias_neox output"),
    Row("nape", "nape", "bias output"),
    Row("hard_alibi", "hard_alibi", "weights output"),
    Row("kerple_log", "kerple_log", "bias", KERPLE),
    Row("kerple_power", "kerple_power", "bias", KERPLE),
    Row("fire", "fire start_values", "bias", FIRE),
    Row("fire(threshold=20.0)", "fire threshold_passed", "bias", FIRE),
    Row("fire_scaled", "fire half_length", "bias", FIRE, {"train_tokens": 23}),
    Row("shaw", "shaw clip_16", "scores output", SHAW),
    Row("shaw_scaled", "shaw clip_4", "scores output", SHAW, {"train_tokens": 8}),
    Row("transformer_xl", "transformer_xl", "scores output", {"u": "r_w_bias", "v": "r_r_bias", "w": "r_net.weight"}),
    Row("bam", "bam", "scores", BAM),
    Row("bam_ssmax", "bam_ssmax", "scores", BAM | {"s": "s"}),
    # content
    Row("fox", "fox", "bias output", FOX),
    Row("fox", "cable", "bias", CABLE),  # CABLE (2503.08067) as first released: FoX with the gates' signs reversed
    Row("path", "path", "output", PATH),
    Row("path_fox", "path_fox", "output", PATH | {"gate": "g_proj.weight", "gate_offset": "g_proj.bias"}),
    Row("stick_breaking", "stick_breaking", "output"),
    Row("grape_a", "grape_a", "bias", {"omega": "omega", "u": "u"}),
    Row("grape_ap", "grape_ap", "bias output", {"weight": "c_p.weight"}),
    Row("asentmax", "asentmax", "output", ASENTMAX),
    Row("cope(p_max=12)", "cope default", "weights output", COPE),
    Row("cope_half(p_max=12)", "cope cope_nodiv", "weights output", COPE),
    Row("dape(alibi)", "dape alibi", "bias", DAPE),
    Row("dape(kerple_log)", "dape kerple_log", "bias", DAPE_KERPLE),
    Row("dape_v2(alibi)", "dape_v2 alibi", "bias", DAPE),
    Row("dape_v2(kerple_log)", "dape_v2 kerple_log", "bias", DAPE_KERPLE),
    # rotary
    Row("xpos", "xpos scale_base_512", "scores", channels=APART),
    Row("xpos(scale_base=11.5)", "xpos scale_base_11.5", "scores", sizes={"train_tokens": 23}, channels=APART),
    Row("grape_m", "grape_m", "scores", {"log_frequencies": "log_freq"}, channels=SWAPPED),
    Row("pope", "pope", "scores", {"delta": "bias"}),
    Row("repo", "repo", "scores", REPO),
    Row("clipped_rope", "clipped_rope", "scores"),
    Row("rope_pp", "rope_pp", "output"),
    Row("rerope", "rerope", "output"),
    Row("rerope(leaky=True)", "leaky_rerope", "output"),
    Row("self_extend", "self_extend", "output"),
    Row("dual_chunk", "dual_chunk", "output"),
    # of rank 16, the default of their class but of no configuration
    Row("selective_rope(rank=16)", "selective_rope", "q k", SELECTIVE | {"kernel": "phi_conv1d.weight"}),
    Row("selective_rope_gated", "selective_rope_gated copying", "q k", SELECTIVE | GATED),
]


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.name}-{row.file}")
def test_hooks_equal_the_authors(row):
    file, _, variant = row.file.partition(" ")
    golden = load(file)
    part = golden["variants"][variant] if variant else golden
    specs = golden.get("parameters", {}) | part.get("parameters", {})
    there = {name: wave(spec) for name, spec in specs.items()}
    there |= {name: torch.tensor([value]) for name, value in part.items() if isinstance(value, float)}
    given = {ours: theirs(there) if callable(theirs) else there[theirs] for ours, theirs in row.names.items()}
    for case in cases(part["outputs"]):
        sizes = row.sizes or ({"train_tokens": case["L"]} if "L" in case else {})
        ours = Pass(build(row.name, given, **sizes), golden.get("inputs", {}), case["T"], row.channels)
        for field in row.compared.split():
            field, _, theirs = field.partition("=")
            assert_rows(getattr(ours, field), case[theirs or field], case["rows"], 3e-6 if field in "qk" else 1e-6)


for row in TABLE:
    plain = row.name if row.name in encodings.catalogue() else row.name.partition("(")[0]
    oracle(plain, against=f"golden/{row.file}")


def close(ours: Tensor, theirs: Sequence, tolerance: float = 1e-7) -> None:
    torch.testing.assert_close(ours.detach().double(), torch.tensor(theirs, dtype=torch.float64), atol=tolerance, rtol=0)


@pytest.mark.parametrize("name", ["alibi", "nape"])
def test_slopes_equal_the_authors(name):
    for heads, expected in load(name)["slopes"].items():
        found = slopes(int(heads)) if name == "alibi" else make_encoding(name, int(heads)).slopes().tolist()
        assert found == pytest.approx(expected, abs=1e-6)


def test_inputs_are_generated_as_the_files_describe():
    q = wave(load("alibi")["inputs"]["q"], 12)
    close(q.flatten()[:3], [0.29552021, 0.84147098, 0.99166481], 1e-8)
    assert q[0, 1, 0, 0].item() == pytest.approx(0.37878591, abs=1e-8)


@pytest.mark.parametrize(("name", "high"), [("kerple_log", 7.0), ("kerple_power", 2.0)])
def test_kerple_is_clamped_but_gradients_pass_as_by_the_authors_clamp_in_place(name, high):
    outside, within = make_encoding(name, 2), make_encoding(name, 2)
    for encoding, a, p in ((outside, [-3.0, 5.0], [-1.0, 7.0]), (within, [0.01, 5.0], [0.01, high])):
        encoding.a.data.copy_(torch.tensor(a)[:, None, None])
        encoding.p.data.copy_(torch.tensor(p)[:, None, None])
        encoding.prepare(At(9, ids=torch.arange(9))).sum().backward()
    torch.testing.assert_close(outside.a.grad, within.a.grad)
    torch.testing.assert_close(outside.p.grad, within.p.grad)


@pytest.mark.parametrize("table", load("t5_buckets")["outputs"].values(), ids=list(load("t5_buckets")["outputs"]))
def test_t5_buckets_equal_the_authors(table):
    found = buckets(torch.arange(401), table["num_buckets"], table["max_distance"])
    assert found.tolist() == table["bucket_of_distance_0_to_400"]


@oracle("sandwich", against="golden/sandwich: NVIDIA/NeMo, whose sum starts at t = 1")
@pytest.mark.parametrize("variant", load("sandwich")["variants"].values(), ids=["width 128", "width 16"])
def test_sandwich_equals_the_port_but_for_its_first_and_last_term(variant):
    width = variant["hidden_size"]
    for case in cases(variant["outputs"]):
        r = torch.arange(case["T"])[:, None] - torch.arange(case["T"])
        terms = r.cos() - (r * 10000.0**-1).cos()  # t = 0 is in ours alone, t = width/2 in theirs alone
        ratio = 8 * torch.arange(1, 5)[:, None, None] / 4
        ours = Pass(build(f"sandwich(width={width})", {}), {}, case["T"])
        assert_rows(ours.bias - terms / ratio, case["bias"], case["rows"])


@oracle("sinusoidal", against="golden/sinusoidal")
def test_sinusoids_equal_those_of_transformer_xl():
    golden = load("sinusoidal")
    ours = sinusoids(torch.tensor(golden["positions"]), golden["setting"]["width"])
    close(torch.cat([ours[:, 0::2], ours[:, 1::2]], 1), golden["outputs"]["pe"], 1e-6)  # all sines, then all cosines
    assert math.isclose(ours[1, 1].item(), math.cos(1), abs_tol=1e-6)


@oracle("fope", against="golden/fope")
@pytest.mark.parametrize("case", load("fope")["outputs"].values(), ids=lambda case: f"L={case['L']}")
def test_fope_with_the_authors_coefficients_equals_them(case):
    encoding = build("fope", {}, train_tokens=case["L"])
    encoding.coefficients = torch.stack([wave(case["parameters"][name]) for name in ("cos_coef", "sin_coef")])
    assert_rows(Pass(encoding, load("fope")["inputs"], case["T"]).scores, case["scores"], case["rows"])


TAPE = {
    "mix": "post_attention_linear.weight",
    "up": "pe.up_proj.weight",
    "gate": "pe.x_proj.weight",
    "down": "pe.down_proj.weight",
}


@oracle("tape", against="golden/tape")
def test_tape_changes_positions_from_layer_to_layer_as_the_authors():
    golden = load("tape")
    for case in cases(golden["outputs"]):
        encoding = build("tape", {ours: wave(golden["parameters"][theirs]) for ours, theirs in TAPE.items()})
        q, k, v, mlp = (wave(golden["inputs"][name], case["T"]) for name in ("q", "k", "v", "mlp"))
        at = At(case["T"], ids=torch.arange(case["T"]))
        at = replace(at, shared=encoding.prepare(at))
        for layer in range(3):
            turned = encoding.rotate(q, k, at)
            assert_rows(encoding.attend(*turned, v, None, at), case[f"output_{layer}"], case["rows"])
            at = replace(at, state=encoding.advance(*turned, None, mlp, at))
            if layer == 0:
                assert_rows(at.state, case["state_1"], case["rows"])


@oracle("canon(nope)", "canon(rope)", against="golden/canon")
@pytest.mark.parametrize("name", ["canon(nope)", "canon(rope)"])
def test_canon_convolves_as_the_authors(name):
    golden, (case,) = load("canon"), cases(load("canon")["outputs"])
    encoding = build(name, {"taps": wave(golden["parameters"]["weight"])[:, 0].flip(1).T})
    x, at = wave(golden["inputs"]["hidden"], case["T"]), At(case["T"], layer=1, ids=torch.arange(case["T"]))
    assert_rows(encoding.embed(x, replace(at, shared=encoding.prepare(at)))[:, None], case["output"], case["rows"])


@oracle("head_scale(nope)", against="golden/head_scale")
def test_head_scale_scales_queries_as_the_authors():
    golden = load("head_scale")
    scale, q = wave(golden["parameters"]["scale_param"]), wave(golden["inputs"]["q"], golden["outputs"]["T"])
    encoding = make_encoding("head_scale(nope)", 2, 64)
    encoding.s.data[1] = scale
    ours, _ = encoding.rotate(q, q, At(golden["outputs"]["T"], layer=1))
    close(ours[0] / math.sqrt(64), golden["outputs"]["q"])


@oracle("sink(nope)", "sink(rope)", against="golden/sink")
@pytest.mark.parametrize("name", ["sink(nope)", "sink(rope)"])
def test_sink_shows_the_keys_that_the_authors_cache_keeps(name):
    for case in load("sink")["outputs"]["cases"]:
        length = len(case["keys_of_each_query"])
        encoding, (q, k, _) = make_encoding(name, 1, train_tokens=case["recent"]), qkv(1, length)
        visible = (encoding.bias(q, k, context(encoding, length))[0, 0] == 0).tril()
        assert [row.nonzero().flatten().tolist() for row in visible] == case["keys_of_each_query"]


@oracle("drope", against="golden/drope")
@pytest.mark.parametrize("stage", ["before", "after"])
def test_drope_equals_the_authors_before_and_after_dropping(stage):
    golden = load("drope")
    for case in cases(golden["outputs"]):
        encoding = build("drope", {})
        q, k, v = (wave(golden["inputs"][name], case["T"]) for name in "qkv")
        at = At(case["T"], after_stage=stage == "after", ids=torch.arange(case["T"]))
        at = replace(at, shared=encoding.prepare(at))
        assert_rows(encoding.attend(*encoding.rotate(q, k, at), v, None, at), case[f"output_{stage}"], case["rows"])


# --- frequencies and scales of rotary encodings


def stretched(name: str, case: dict, longest: int):
    return make_encoding(name, 1, case["d"], train_tokens=case["L"], longest_tokens=longest)


def assert_rotation(encoding, case: dict, ids: Tensor) -> None:
    cos, sin = encoding.prepare(At(case["N"], ids=ids))
    close(cos[0], case["cos"], 2e-6)
    close(sin[0], case["sin"], 2e-6)


@oracle("yarn", "yarn_dynamic", against="golden/yarn")
def test_yarn_equals_the_authors():
    golden = load("yarn")["outputs"]
    for case in golden["yarn"]:
        assert list(ramp_range(case["d"], 1e4, case["L"])) == case["ramp"]
        encoding = stretched("yarn", case, case["L_prime"])
        close(encoding.thetas(At(case["L"] + 1)), case["inv_freq"])
        cos, sin = encoding.prepare(At(case["L"] + 1, ids=torch.tensor([1])))
        close((cos.square() + sin.square()).sqrt(), torch.full_like(cos, case["mscale"]).tolist(), 1e-6)
    for case in golden["mscale"]:
        assert case["scale"] < 1 or temperature(case["scale"]) == pytest.approx(case["mscale"], abs=1e-8)
    for case in golden["dynamic"]:
        encoding = stretched("yarn_dynamic", case, 10**5)
        close(encoding.thetas(At(case["N"])), case["inv_freq"])
        assert_rotation(encoding, case, torch.tensor(case["positions"]))


@oracle("ntk", "ntk_dynamic", "interpolated(rope)", against="golden/ntk")
def test_ntk_and_interpolation_equal_the_authors():
    golden = load("ntk")["outputs"]
    for case in golden["ntk"]:
        close(stretched("ntk", case, case["L_prime"]).thetas(At(case["L"] + 1)), case["inv_freq"])
    for case in golden["dynamic"]:
        close(stretched("ntk_dynamic", case, 10**5).thetas(At(case["N"])), case["inv_freq"])
    for case in golden["interpolation"]:
        encoding = stretched("interpolated(rope)", case, 10**5)
        ids = encoding.positions(torch.zeros(1, case["N"], dtype=torch.long), At(case["N"]))
        assert_rotation(encoding, case, ids[case["positions"]])


@oracle("ssmax(rope)", "ssmax(rope,start=1.0)", against="golden/ssmax: a port, which counts one key more")
@pytest.mark.parametrize("name", ["ssmax(rope)", "ssmax(rope,start=1.0)"])
def test_ssmax_is_the_port_one_place_later(name):
    golden, encoding = load("ssmax"), make_encoding(name, 4)
    expected = torch.tensor(golden["outputs"]["scale"], dtype=torch.float64)
    encoding.s.data[1] = wave(golden["parameters"]["attn_scale_beta"])
    at, (q, k, _) = context(encoding, expected.shape[1] + 1), qkv(4, expected.shape[1] + 1)
    ours, plain = encoding.rotate(q, k, at)[0], encoding.base.rotate(q, k, at)[0]
    torch.testing.assert_close(ours[:, :, 1:], plain[:, :, 1:] * expected[..., None], atol=1e-7, rtol=1e-7)


@oracle("llama3", against="golden/llama3")
def test_llama3_equals_the_authors():
    golden = load("llama3")
    for case in golden["outputs"]["cases"]:
        encoding = make_encoding(f"llama3(base={case['base']})", 1, case["d"], **golden["setting"])
        close(encoding.thetas(At(8193)), case["inv_freq"], 1e-9)
        assert torch.equal(encoding.thetas(At(8192)), frequencies(case["d"], case["base"]))


@pytest.mark.parametrize(
    ("scaled", "d", "base", "train_tokens", "n"),
    [
        (False, 128, 500000, 12, 20),
        (False, 32, 10000, 12, 5),
        (True, 128, 500000, 8192, 29),
        (True, 16, 10000, 23, 6),
        (True, 8, 10000, 700, 1),
        (True, 8, 10000, 3, 4),
    ],
)
@oracle("clipped_rope(scaled=True)", against="golden/clipped_rope, with their count of pairs")
def test_clipped_rope_equals_the_authors_with_n_clipped_pairs(scaled, d, base, train_tokens, n):
    encoding = make_encoding(f"clipped_rope(base={float(base)},scaled={scaled})", 1, d, train_tokens=train_tokens)
    (entry,) = (e for e in load("clipped_rope")["frequencies"] if (e["d"], e["base"], e["clip_low_n"]) == (d, base, n))
    close(encoding.thetas(At(9)), entry["inv_freq"])


def test_rope_nope_has_the_layers_and_windows_of_cohere2():
    golden, (q, k, _) = load("cohere2"), qkv(1, 3)
    for layers, types in golden["outputs"]["layer_types"].items():
        encoding = make_encoding("rope_nope", 1, layers=int(layers))
        turned = [encoding.rotate(q, k, context(encoding, 3, layer=layer))[0] is not q for layer in range(len(types))]
        ours = ["sliding_attention" if yes else "full_attention" for yes in turned]
        # Cohere 2 has no layer without positions in a model of fewer than four layers; here the last one is.
        assert ours == (types if len(types) >= 4 else [*types[:-1], "full_attention"])
    for case in golden["outputs"]["window"]:
        encoding = make_encoding(f"swan(window={case['sliding_window']})", 1)
        visible = (context(encoding, case["T"]).shared[-1] == 0).tril().squeeze()
        found = [[row.nonzero().min().item(), row.nonzero().max().item()] for row in visible]
        assert found == case["first_and_last_key_of_each_query"]


def test_logn_past_the_training_length_equals_qwen():
    for case in load("logn")["outputs"]:
        encoding = make_encoding("logn(nope,only_past=True)", 1, train_tokens=case["train_length"])
        rows = case.get("i", range(1, len(case["scale"]) + 1))
        ones = torch.ones(1, 1, max(rows), 8, dtype=torch.float64)
        q, k = encoding.rotate(ones, ones, At(max(rows)))
        close(q[0, 0, [i - 1 for i in rows], 0], case["scale"])
        assert torch.equal(k, ones)


def test_temperatures_of_selective_rope_gated_equal_the_authors():
    for case in load("selective_rope_gated")["rfa_temperatures"]:
        thetas = make_encoding("selective_rope_gated", 1, case["d"]).prepare(At(1, ids=torch.arange(1)))
        close(thetas, case["temperature"], 1e-9)
