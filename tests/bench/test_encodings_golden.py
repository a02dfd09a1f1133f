"""Encodings against the numbers that the authors' own code gives on fixed inputs; see ``golden.py``.

``TABLE`` holds the encodings whose hooks are compared as they are. What needs more than a row has a test of its own below.
"""

import pytest
import torch
from golden import Pass, assert_rows, build, cases, load, wave
from helpers import make_encoding, oracle

from bench.encodings import At
from bench.encodings.alibi import slopes
from bench.encodings.asentmax import Entmax
from bench.encodings.attention import masked, scores
from bench.encodings.path_kernel import reflection
from bench.encodings.t5 import buckets

FOX = {"weight": "fgate_proj.weight", "offset": "fgate_proj.bias"}
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
KERPLE = {"a": "bias_a", "p": "bias_p"}

TABLE = [  # name, file (and variant), parameter here → there, what is compared (=its name there), source
    ("alibi", "alibi", {}, "bias=bias_neox output", "ofirpress/attention_with_linear_biases"),
    ("nape", "nape", {}, "bias output", "deep-spin/asentmax"),
    ("hard_alibi", "hard_alibi", {}, "weights output", "sjelassi/transformers_ssm_copy"),
    ("kerple_log", "kerple_log", KERPLE, "bias", "chijames/KERPLE"),
    ("kerple_power", "kerple_power", KERPLE, "bias", "chijames/KERPLE"),
    ("fox", "fox", FOX, "bias output", "zhixuan-lin/forgetting-transformer and fla"),
    ("path", "path", PATH, "output", "fla-org/flash-linear-attention"),
    ("path_fox", "path_fox", PATH | {"gate": "g_proj.weight", "gate_offset": "g_proj.bias"}, "output", "fla"),
    ("stick_breaking", "stick_breaking", {}, "output", "shawntan/stickbreaking-attention"),
    ("transformer_xl", "transformer_xl", {"u": "r_w_bias", "v": "r_r_bias", "w": "r_net.weight"}, "scores output",
     "kimiyoung/transformer-xl"),
    ("grape_a", "grape_a", {"omega": "omega", "u": "u"}, "bias", "model-architectures/GRAPE"),
    ("grape_ap", "grape_ap", {"weight": "c_p.weight"}, "bias output", "model-architectures/GRAPE"),
    ("asentmax", "asentmax", ASENTMAX, "output", "deep-spin/asentmax and entmax"),
    ("pope", "pope", {"delta": "bias"}, "scores", "lucidrains/PoPE-pytorch"),
    ("clipped_rope", "clipped_rope", {}, "scores", "hrlics/CoPE"),
    # of rank 16, the default of their class but of no configuration
    ("selective_rope(rank=16)", "selective_rope", SELECTIVE | {"kernel": "phi_conv1d.weight"}, "q k",
     "timurcarstensen/selective-rope"),
    ("selective_rope_gated", "selective_rope_gated copying", SELECTIVE | GATED, "q k", "timurcarstensen/selective-rope"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "file", "names", "compared"), [row[:4] for row in TABLE], ids=[row[0] for row in TABLE])
def test_hooks_equal_the_authors(name, file, names, compared):
    file, _, variant = file.partition(" ")
    golden = load(file)
    part = golden["variants"][variant] if variant else golden
    encoding = build(name, {ours: wave(part["parameters"][theirs]) for ours, theirs in names.items()})
    for case in cases(part["outputs"]):
        ours = Pass(encoding, golden.get("inputs", {}), case["T"])
        for field in compared.split():
            field, _, theirs = field.partition("=")
            assert_rows(getattr(ours, field), case[theirs or field], case["rows"], 3e-6 if field in "qk" else 1e-6)


for row in TABLE:
    oracle(row[0].partition("(")[0], against=f"{row[-1]}, golden numbers")(test_hooks_equal_the_authors)


def test_reflections_of_path_equal_the_authors():
    golden = load("path")
    for case in cases(golden["outputs"]):
        ours = Pass(build("path", {o: wave(golden["parameters"][t]) for o, t in PATH.items()}), golden["inputs"], case["T"])
        w, _, beta = reflection(*ours.encoding.reflections(ours.at))
        assert_rows(w, case["w"], case["w_rows"])
        assert_rows(beta.mT, [[row] for row in case["beta"]], [0])


def test_weights_of_asentmax_equal_the_authors():
    golden = load("asentmax")
    given = {ours: wave(golden["parameters"][theirs]) for ours, theirs in ASENTMAX.items()}
    for case in cases(golden["outputs"]):
        ours = Pass(build("asentmax", given), golden["inputs"], case["T"])
        weights = Entmax.apply(masked(scores(ours.q, ours.k, ours.encoding.setup), ours.bias, ours.at))
        assert_rows(weights, case["weights"], case["rows"])


@pytest.mark.parametrize("name", ["alibi", "nape"])
def test_slopes_equal_the_authors(name):
    for heads, expected in load(name)["slopes"].items():
        found = slopes(int(heads)) if name == "alibi" else make_encoding(name, int(heads)).slopes().tolist()
        assert found == pytest.approx(expected, abs=1e-6)


def test_inputs_are_generated_as_the_files_describe():
    q = wave(load("alibi")["inputs"]["q"], 12)
    torch.testing.assert_close(
        q.flatten()[:3], torch.tensor([0.29552021, 0.84147098, 0.99166481], dtype=q.dtype), atol=1e-8, rtol=0
    )
    assert q[0, 1, 0, 0].item() == pytest.approx(0.37878591, abs=1e-8)


def test_hard_alibi_masks_half_of_the_heads():
    case = load("hard_alibi")["outputs"]["T=12"]
    bias = make_encoding("hard_alibi", 6).prepare(At(12, ids=torch.arange(12)))
    for head, lines in enumerate(case["weights_6_heads"]):
        for i, line in zip(case["rows"], lines, strict=True):
            assert (bias[head, i, : i + 1] == 0).tolist() == [weight > 0 for weight in line]


# --- shaw


@oracle("shaw", "shaw_scaled", against="tensorflow/tensor2tensor, golden numbers")
@pytest.mark.parametrize(("name", "variant"), [("shaw", "clip_16"), ("shaw(clip=4)", "clip_4"), ("shaw_scaled", "clip_4")])
def test_shaw_equals_the_authors(name, variant):
    golden = load("shaw")["variants"][variant]
    clip = golden["max_relative_position"]
    # Their row `clip` is distance 0, and earlier rows are larger distances.
    tables = {
        key: wave(golden["parameters"][f"relative_positions_{key}/embeddings"])[: clip + 1].flip(0)
        for key in ("keys", "values")
    }
    for case in cases(golden["outputs"]):
        ours = Pass(build(name, tables, train_tokens=8), load("shaw")["inputs"], case["T"])
        assert_rows(ours.scores, case["scores"], case["rows"])
        assert_rows(ours.output, case["output"], case["rows"])


# --- t5


@pytest.mark.parametrize("table", load("t5_buckets")["outputs"].values(), ids=list(load("t5_buckets")["outputs"]))
def test_t5_buckets_equal_the_authors(table):
    found = buckets(torch.arange(401), table["num_buckets"], table["max_distance"])
    assert found.tolist() == table["bucket_of_distance_0_to_400"]


# --- sandwich


def test_sandwich_sums_of_cosines():
    formula = load("sandwich")["formula"]
    width, furthest = formula["width"], max(formula["distances"])
    bias = make_encoding("sandwich", 4).prepare(At(furthest + 1, ids=torch.arange(furthest + 1)))
    sums = 8 * bias[-1, furthest].double() + width / 2  # the last head's ratio is 8h/H = 8
    found = [sums[furthest - r].item() for r in formula["distances"]]
    assert found == pytest.approx(formula["sum_of_cosines"], abs=2e-5)


@oracle("sandwich", against="NVIDIA/NeMo, golden numbers, whose sum starts at t = 1")
@pytest.mark.parametrize("variant", load("sandwich")["variants"].values(), ids=["width 128", "width 16"])
def test_sandwich_equals_the_port_but_for_its_first_and_last_term(variant):
    width = variant["hidden_size"]
    for case in cases(variant["outputs"]):
        r = torch.arange(case["T"])[:, None] - torch.arange(case["T"])
        terms = r.cos() - (r * 10000.0**-1).cos()  # t = 0 is in ours alone, t = width/2 in theirs alone
        ratio = 8 * torch.arange(1, 5)[:, None, None] / 4
        ours = Pass(build(f"sandwich(width={width})", {}), {}, case["T"])
        assert_rows(ours.bias - terms / ratio, case["bias"], case["rows"])


# --- fire


def fire_parameters(golden: dict, variant: dict) -> dict[str, torch.Tensor]:
    given = golden["parameters"]
    return {
        "w1": wave(given["mlp.0.weight"]),
        "b1": wave(given["mlp.0.bias"]),
        "w2": wave(given["mlp.2.weight"]),
        "c": torch.tensor([variant["c"]]),
        "m": torch.tensor([variant["L_multiplier"]]),
    }


@oracle("fire", "fire_scaled", against="chuanyang-Zheng/DAPE, golden numbers")
@pytest.mark.parametrize(
    ("name", "variant"),
    [("fire", "start_values"), ("fire(threshold=20.0)", "threshold_passed"), ("fire_scaled", "half_length")],
)
def test_fire_equals_the_authors(name, variant):
    golden = load("fire")
    variant = golden["variants"][variant]
    for case in cases(variant["outputs"]):
        encoding = build(name, fire_parameters(golden, variant), train_tokens=23)
        assert encoding.threshold == variant["init_L"]
        assert_rows(Pass(encoding, {}, case["T"]).bias, case["bias"], case["rows"])


# --- cope


@oracle("cope", "cope_half", against="facebookresearch/RAM, golden numbers")
@pytest.mark.parametrize(("name", "variant"), [("cope", "default"), ("cope_half", "cope_nodiv")])
def test_cope_equals_the_authors(name, variant):
    golden = load("cope")
    table = wave(golden["parameters"]["pos_emb"])[0].T
    for case in cases(golden["variants"][variant]["outputs"]):
        ours = Pass(build(f"{name}(p_max={len(table)})", {"table": table}), golden["inputs"], case["T"])
        assert_rows(ours.weights, case["weights"], case["rows"])
        assert_rows(ours.output, case["output"], case["rows"])


# --- fox


def test_fox_with_negated_gates_is_cable():
    """CABLE (2503.08067) as first released has no entry of its own: it is FoX with the gates' signs reversed."""
    golden = load("cable")
    weight, offset = (-wave(golden["parameters"][f"h_attn.{name}"]) for name in ("weight", "bias"))
    for case in cases(golden["outputs"]):
        ours = Pass(build("fox", {"weight": weight, "offset": offset}), golden["inputs"], case["T"])
        assert_rows(ours.bias, case["bias"], case["rows"])


# --- dape


DAPE_NAMES = {"mlp2.0.weight": "w1", "mlp2.0.bias": "b1", "mlp2.2.weight": "w2", "mlp2.2.bias": "b2"}
KERPLE_NAMES = {"bias_a": "base.a", "bias_p": "base.p"}


def squeezed(w: torch.Tensor) -> torch.Tensor:
    """Without the axis of queries, over which version 2's convolutions have width 1."""
    return w.squeeze(2) if w.ndim == 4 else w


@oracle(
    "dape(alibi)", "dape(kerple_log)", "dape_v2(alibi)", "dape_v2(kerple_log)", against="chuanyang-Zheng/DAPE, golden numbers"
)
@pytest.mark.parametrize("base", ["alibi", "kerple_log"])
@pytest.mark.parametrize("wrapper", ["dape", "dape_v2"])
def test_dape_equals_the_authors(wrapper, base):
    golden = load(wrapper)
    variant = golden["variants"][base]
    given = {ours: squeezed(wave(golden["parameters"][theirs])) for theirs, ours in DAPE_NAMES.items()}
    # Every layer has its own KERPLE: `build` fills the other layer's with NaN.
    given |= {KERPLE_NAMES[theirs]: wave(spec) for theirs, spec in variant["parameters"].items()}
    for case in cases(variant["outputs"]):
        ours = Pass(build(f"{wrapper}({base})", given), golden["inputs"], case["T"])
        assert_rows(ours.bias, case["bias"], case["rows"])
