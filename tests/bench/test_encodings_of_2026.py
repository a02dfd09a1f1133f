"""Window baselines, test-time extensions of RoPE, and methods of 2024 to 2026: authors' numbers, or slow loops over pairs."""

import math

import numpy as np
import pytest
import torch
from golden import Pass, assert_rows, build, cases, load
from helpers import attention, context, make_encoding, oracle, perturbed, qkv, recipe_of, task_model
from torch.nn import functional as F

import tasks
from bench.encodings import At
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, train

L = 12


@oracle("rerope", "leaky_rerope", against="bojone/rerope, golden numbers")
@oracle("self_extend", against="datamllab/LongLM, golden numbers")
@oracle("dual_chunk", against="HKUNLP/ChunkLlama, golden numbers")
@pytest.mark.parametrize("name", ["rerope", "leaky_rerope", "self_extend", "dual_chunk"])
def test_extensions_of_rope_equal_the_authors(name):
    golden = load(name)
    for case in cases(golden["outputs"]):
        encoding = build(name, {}, train_tokens=case["L"])
        assert_rows(Pass(encoding, golden["inputs"], case["T"]).output, case["output"], case["rows"])


@pytest.mark.parametrize("name", ["rerope", "leaky_rerope", "self_extend", "dual_chunk"])
def test_extensions_are_rope_up_to_l(name):
    q, k, v = qkv(2, L)
    ours, rope = (attention(make_encoding(n, 2, train_tokens=L), q, k, v) for n in (name, "rope"))
    torch.testing.assert_close(ours, rope, rtol=0, atol=0)


@oracle("rope_pp", against="OpenMOSS/rope_pp, golden numbers")
def test_rope_pp_equals_the_authors():
    golden = load("rope_pp")
    for case in cases(golden["outputs"]):
        assert_rows(Pass(build("rope_pp", {}), golden["inputs"], case["T"]).output, case["output"], case["rows"])


@oracle("bam", "bam_ssmax", against="ArthurSBianchessi/BAM, golden numbers")
@pytest.mark.parametrize("name", ["bam", "bam_ssmax"])
def test_bam_equals_the_authors(name):
    golden = load(name)
    parameters = {key: torch.tensor(p["values"], dtype=torch.float64) for key, p in golden["parameters"].items()}
    for case in cases(golden["outputs"]):
        assert_rows(Pass(build(name, parameters), golden["inputs"], case["T"]).scores, case["scores"], case["rows"])


def slow(q, k, v, score):
    """Attention by a loop over pairs: ``score(h, i, j, q·k/√d)`` or None for a hidden key."""
    out = torch.zeros_like(v)
    for h in range(q.shape[1]):
        for i in range(q.shape[2]):
            plain = [float(q[0, h, i].detach() @ k[0, h, j].detach()) / math.sqrt(q.shape[3]) for j in range(i + 1)]
            scores = [score(h, i, j, s) for j, s in enumerate(plain)]
            exps = [0.0 if s is None else math.exp(s) for s in scores]
            out[0, h, i] = sum(e / sum(exps) * v[0, h, j] for j, e in enumerate(exps))
    return out


WINDOWS = [("window(nope)", L, 0), ("window(nope,share=0.25)", 3, 0), ("sink(nope)", L, 4)]


@oracle("window(nope)", "window(nope,share=0.25)", "sink(nope)", against="a loop over pairs")
@pytest.mark.parametrize(("name", "width", "first"), WINDOWS)
def test_window_hides_all_but_the_last_tokens(name, width, first):
    q, k, v = qkv(2, 30, rows=1)
    expected = slow(q, k, v, lambda h, i, j, s: s if i - j < width or j < first else None)
    torch.testing.assert_close(attention(make_encoding(name, 2, train_tokens=L), q, k, v), expected)


@oracle("window(rope)", "sink(rope)", "window(rope,tests_only=True)", against="rope with hidden keys")
def test_window_of_rope_in_tests_is_rope_up_to_l_and_the_window_beyond():
    for length, same_as in ((L, "rope"), (30, "window(rope)")):
        q, k, v = qkv(2, length)
        names = "window(rope,tests_only=True)", same_as
        ours, other = (attention(make_encoding(name, 2, train_tokens=L), q, k, v) for name in names)
        torch.testing.assert_close(ours, other, rtol=0, atol=0)
    assert (attention(make_encoding("rope", 2, train_tokens=L), q, k, v) - other).abs().max() > 1e-3


@oracle("adaptive_temperature(nope)", "adaptive_temperature(rope)", against="a loop over pairs with the listing's np.polyval")
def test_adaptive_temperature_sharpens_flat_attention_beyond_l():
    encoding = make_encoding("adaptive_temperature(nope)", 2, train_tokens=L)
    q, k, v = (x.double() for x in qkv(2, 30, rows=1))
    out = torch.zeros_like(v)
    for h in range(2):
        for i in range(30):
            s = torch.stack([q[0, h, i] @ k[0, h, j] for j in range(i + 1)]) / math.sqrt(q.shape[3])
            entropy = torch.distributions.Categorical(logits=s).entropy().item()
            fit = np.polyval([-0.037, 0.481, -2.3, 4.917, -1.791], entropy)
            out[0, h, i] = (s * (max(fit, 1.0) if entropy > 0.5 else 1.0)).softmax(0) @ v[0, h, : i + 1]
    torch.testing.assert_close(attention(encoding, q, k, v).double(), out, atol=1e-5, rtol=1e-5)
    inside = [x[:, :, :L] for x in (q, k, v)]
    torch.testing.assert_close(attention(encoding, *inside), attention(make_encoding("nope", 2), *inside), rtol=0, atol=0)


@oracle("norm_after(nope)", against="torch.nn.functional.layer_norm")
def test_norm_after_attention_normalises_each_head():
    encoding = perturbed(make_encoding("norm_after(nope)", 2))
    q, k, v = qkv(2, 20)
    plain = attention(make_encoding("nope", 2), q, k, v)
    ours = attention(encoding, q, k, v, layer=1)
    for h in range(2):
        expected = F.layer_norm(plain[:, h], (plain.shape[-1],), encoding.gain[1, h, 0], encoding.offset[1, h, 0])
        torch.testing.assert_close(ours[:, h], expected)


@oracle("scale_invariant(nope)", "scale_invariant(p_rope)", against="a loop over pairs, and the paper's two conditions")
def test_scale_invariant_attention():
    encoding = make_encoding("scale_invariant(nope)", 2)
    q, k, v = qkv(2, 25, rows=1)

    def score(h, i, j, s):
        square = 2 * math.log(1 + (i - j) / 10) + 1
        return math.sqrt(square) * s + 1 - square

    torch.testing.assert_close(attention(encoding, q, k, v), slow(q, k, v, score), atol=1e-5, rtol=1e-5)
    gauss = torch.randn(1_000_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for r in (0, 10, 90):  # E exp(a·s + m) falls as 1/(1 + r/τ), so every octave of r has the same total
        square = 2 * math.log(1 + r / 10) + 1
        weight = (math.sqrt(square) * gauss + 1 - square).exp().mean().item()
        assert weight == pytest.approx(math.exp(0.5) / (1 + r / 10), rel=0.1)


@oracle("fope", against="a loop over pairs and frequencies")
def test_fope_turns_pairs_by_sums_of_frequencies():
    encoding = make_encoding("fope", 2, head_width=16, train_tokens=64)
    q, k, _ = qkv(2, 20, head_width=16, rows=1)
    ours, _ = encoding.rotate(q, k, context(encoding, 20, 20))
    thetas = [10000 ** (-2 * t / 16) for t in range(8)]
    kept = [t for t in thetas if t >= 2 * math.pi / 64]
    outputs, c = min(len(kept), 4), encoding.coefficients
    assert 0 < outputs < 8
    for h in range(2):
        for i in range(20):
            for t in range(8):
                waves = [
                    sum(float(c[kind, h, u, t]) * wave(i * theta) for u, theta in enumerate(kept)) if t < outputs else 1.0
                    for kind, wave in enumerate((math.cos, math.sin))
                ]
                a, b = q[0, h, i, t].item(), q[0, h, i, t + 8].item()
                assert ours[0, h, i, t].item() == pytest.approx(a * waves[0] - b * waves[1], abs=1e-5)
                assert ours[0, h, i, t + 8].item() == pytest.approx(a * waves[1] + b * waves[0], abs=1e-5)


@oracle("random_floats(rope)", "random_floats(alibi)", "random_floats(sinusoidal)", against="the distribution of the ids")
@oracle("pose(rope)", against="dwzhu-pku/PoSE, its cut and gap")
def test_random_ids():
    encoding = make_encoding("random_floats(rope)", 2, train_tokens=L, longest_tokens=120)
    ids = context(encoding, L, L).positions
    assert ids.shape == (L,) and (ids.diff() > 0).all() and ids.min() >= 0 and ids.max() <= 120
    assert ids.max() > L  # beyond the training length with probability 1 − (12/120)¹²
    pose = make_encoding("pose(rope)", 2, train_tokens=L, longest_tokens=120)
    gaps = (
        torch.stack(
            [pose.positions(torch.zeros(1, L), At(L, generator=torch.Generator().manual_seed(n))).diff() for n in range(300)]
        )
        - 1
    )
    assert (gaps >= 0).all() and ((gaps > 0).sum(1) <= 1).all() and gaps.sum(1).max() in range(100, 120 - L + 1)
    assert gaps.sum(0).nonzero().flatten().tolist() == list(range((L + 1) // 2))  # the cut is in the first half
    torch.testing.assert_close(context(pose, 60, 60).positions, torch.arange(60))


@oracle("head_scale(nope)", against="queries scaled by hand; the numbers are all that its stage trains")
def test_head_scale_is_tuned_alone_after_training():
    task, recipe = tasks.get("copying", "unique", 6), recipe_of(steps=200)

    def trained(name: str):
        model = task_model(name, task, 3)
        train(model, AdamW(model, recipe), task, 3, recipe, 0, TrainingState())
        return model

    ours, plain = trained("head_scale(nope)"), dict(trained("nope").named_parameters())
    assert (ours.encoding.s - 1).abs().max() > 0
    for name, parameter in ours.named_parameters():
        assert name == "encoding.s" or torch.equal(parameter, plain[name]), name
    encoding, (q, k, v) = perturbed(make_encoding("head_scale(nope)", 2)), qkv(2, 20)
    expected = attention(make_encoding("nope", 2), q * encoding.s[1, :, None, None], k, v)
    torch.testing.assert_close(attention(encoding, q, k, v, layer=1), expected)


@oracle("canon(nope)", "canon(rope)", against="torch.nn.functional.conv1d")
def test_canon_is_a_causal_convolution():
    encoding = perturbed(make_encoding("canon(nope)", 2))
    x = torch.randn(3, 11, encoding.setup.width, dtype=torch.float64)
    taps = encoding.taps[1].flip(0).t()[:, None]
    expected = x + F.conv1d(F.pad(x.mT, (3, 0)), taps, groups=len(taps)).mT
    torch.testing.assert_close(encoding.embed(x, context(encoding, 11, 11)), expected)


@oracle("ssmax(hard_alibi)", "ssmax(kerple_log)", "ssmax(kerple_power)", against="queries scaled by hand")
@oracle("logn(hard_alibi)", "logn(kerple_log)", "logn(kerple_power)", against="queries scaled by hand")
@oracle("ssmax(rope,start=1.0)", against="queries scaled by hand")
@pytest.mark.parametrize("inner", ["hard_alibi", "kerple_log", "kerple_power", "rope"])
def test_scaling_leaves_the_bias(inner):
    q, k, v = qkv(2, 30)
    log_n = torch.arange(1, 31, dtype=q.dtype).log()[:, None]
    scales = {"ssmax({})": log_n * L / math.lgamma(L + 1), "ssmax({},start=1)": log_n, "logn({})": log_n / math.log(L)}
    for name, scale in scales.items():
        ours = attention(make_encoding(name.format(inner), 2, train_tokens=L), q, k, v)
        torch.testing.assert_close(ours, attention(make_encoding(inner, 2, train_tokens=L), q * scale.to(q.dtype), k, v))
