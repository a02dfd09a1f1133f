"""Encodings that depend on content or replace the softmax, against the numbers of the authors' code; see ``golden.py``."""

from golden import Pass, assert_rows, build, cases, load, wave
from helpers import oracle

from bench.encodings.asentmax import Entmax
from bench.encodings.attention import masked, scores
from bench.encodings.path_kernel import reflection


def tensors(golden: dict, names: dict[str, str]) -> dict:
    """Parameter name here → tensor that the file gives under the authors' name."""
    return {ours: wave(golden["parameters"][theirs]) for ours, theirs in names.items()}


FOX = {"weight": "fgate_proj.weight", "offset": "fgate_proj.bias"}
PATH = {
    "down": "w_proj.0.weight",
    "up": "w_proj.1.weight",
    "taps": "w_conv1d.weight",
    "strength": "bt_proj.weight",
    "offset": "bt_proj.bias",
}


@oracle("fox", against="zhixuan-lin/forgetting-transformer and fla, golden numbers")
def test_fox_equals_the_authors():
    golden = load("fox")
    for case in cases(golden["outputs"]):
        ours = Pass(build("fox", tensors(golden, FOX)), golden["inputs"], case["T"])
        assert_rows(ours.bias, case["bias"], case["rows"])
        assert_rows(ours.output, case["output"], case["rows"])


@oracle("path", against="fla-org/flash-linear-attention, golden numbers")
def test_path_equals_the_authors():
    golden = load("path")
    for case in cases(golden["outputs"]):
        ours = Pass(build("path", tensors(golden, PATH)), golden["inputs"], case["T"])
        w, _, beta = reflection(*ours.encoding.reflections(ours.at))
        assert_rows(w, case["w"], case["w_rows"])
        assert_rows(beta.mT, [[row] for row in case["beta"]], [0])
        assert_rows(ours.output, case["output"], case["rows"])


@oracle("stick_breaking", against="shawntan/stickbreaking-attention, golden numbers")
def test_stick_breaking_equals_the_authors():
    golden = load("stick_breaking")
    for case in cases(golden["outputs"]):
        ours = Pass(build("stick_breaking", {}), golden["inputs"], case["T"])
        assert_rows(ours.output, case["output"], case["rows"])


@oracle("transformer_xl", against="kimiyoung/transformer-xl, golden numbers")
def test_transformer_xl_equals_the_authors():
    golden = load("transformer_xl")
    names = {"u": "r_w_bias", "v": "r_r_bias", "w": "r_net.weight"}
    for case in cases(golden["outputs"]):
        ours = Pass(build("transformer_xl", tensors(golden, names)), golden["inputs"], case["T"])
        assert_rows(ours.scores, case["scores"], case["rows"])
        assert_rows(ours.output, case["output"], case["rows"])


@oracle("grape_a", against="model-architectures/GRAPE, golden numbers")
def test_grape_a_equals_the_authors():
    golden = load("grape_a")
    for case in cases(golden["outputs"]):
        ours = Pass(build("grape_a", tensors(golden, {"omega": "omega", "u": "u"})), golden["inputs"], case["T"])
        assert_rows(ours.bias, case["bias"], case["rows"])


@oracle("path_fox", against="fla-org/flash-linear-attention, golden numbers")
def test_path_with_a_forget_gate_equals_the_authors():
    golden = load("path_fox")
    names = PATH | {"gate": "g_proj.weight", "gate_offset": "g_proj.bias"}
    for case in cases(golden["outputs"]):
        ours = Pass(build("path_fox", tensors(golden, names)), golden["inputs"], case["T"])
        assert_rows(ours.output, case["output"], case["rows"])


@oracle("grape_ap", against="model-architectures/GRAPE, golden numbers")
def test_grape_ap_equals_the_authors():
    golden = load("grape_ap")
    for case in cases(golden["outputs"]):
        ours = Pass(build("grape_ap", tensors(golden, {"weight": "c_p.weight"})), golden["inputs"], case["T"])
        assert_rows(ours.bias, case["bias"], case["rows"])
        assert_rows(ours.output, case["output"], case["rows"])


@oracle("asentmax", against="deep-spin/asentmax and entmax, golden numbers")
def test_asentmax_equals_the_authors():
    golden = load("asentmax")
    names = {
        f"{x}{end}": f"attn_scale_{x}_proj.{kind}"
        for x in ("beta", "gamma")
        for end, kind in (("", "weight"), ("_offset", "bias"))
    }
    for case in cases(golden["outputs"]):
        ours = Pass(build("asentmax", tensors(golden, names)), golden["inputs"], case["T"])
        weights = Entmax.apply(masked(scores(ours.q, ours.k, ours.encoding.setup), ours.bias, ours.at))
        assert_rows(weights, case["weights"], case["rows"])
        assert_rows(ours.output, case["output"], case["rows"])
