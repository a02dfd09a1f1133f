"""Oracles of wrappers that change scores: DAPE, SSMax, log-n scaling."""

import math
from dataclasses import replace

import loop_content as content
import loop_oracles as loops
import pytest
import torch
from helpers import assert_same, attention, make_encoding, oracle, perturbed, qkv

from bench.encodings import At, alibi

SHAPES = [(1, 5, 0), (2, 1, 1), (3, 20, 1), (5, 7, 0), (4, 16, 1)]
"""Heads, tokens and layer: odd head counts, a single token, lengths below and past the train length of 12."""
shapes = pytest.mark.parametrize(("heads", "length", "layer"), SHAPES)

# --- dape


DAPE = {
    "dape(alibi)": lambda base, layer, ids: loops.alibi(ids, torch.tensor(alibi.slopes(base.setup.heads), dtype=torch.float64)),
    "dape(kerple_log)": lambda base, layer, ids: loops.kerple_log(ids, base.a[layer, :, 0, 0], base.p[layer, :, 0, 0]),
}
"""Name → bias of the wrapped encoding."""


@oracle(*DAPE, against="a loop over queries and keys")
@pytest.mark.parametrize("name", DAPE)
@shapes
def test_dape_is_the_formula(heads, length, layer, name):
    encoding = perturbed(make_encoding(name, heads))
    for parameter in encoding.base.parameters():
        parameter.data = parameter.data.abs() + 0.02  # above KERPLE's clamp, below which gradients differ
    inputs = qkv(heads, length)
    network = [parameter[layer] for parameter in (encoding.w1, encoding.b1, encoding.w2, encoding.b2)]
    slow = content.dape(*inputs, DAPE[name](encoding.base, layer, torch.arange(length)), *network)
    tensors = [*inputs, *encoding.parameters()] if length > 1 else ()
    assert_same(attention(encoding, *inputs, layer=layer), slow, tensors, atol=2e-6)  # the wrapped biases are in float32


@pytest.mark.parametrize("name", ["dape(kerple_log)", "dape_v2(kerple_log)", "dape(kerple_power)"])
def test_dape_has_a_kerple_per_layer(name):
    encoding = make_encoding(name, 3, layers=4)
    assert encoding.base.a.shape == encoding.base.p.shape == (4, 3, 1, 1)
    assert len(encoding.base.a.unique()) == 12, "each drawn by itself"
    inputs = qkv(3, 9)
    before = [attention(encoding, *inputs, layer=layer) for layer in range(4)]
    with torch.no_grad():
        encoding.base.p[2] += 0.5
    changed = [not torch.equal(attention(encoding, *inputs, layer=layer), before[layer]) for layer in range(4)]
    assert changed == [False, False, True, False]
    assert make_encoding("kerple_log", 3, layers=4).a.shape == (3, 1, 1), "KERPLE alone is shared by all layers"


def test_dape_v2_sees_neighbouring_keys_but_no_later_ones():
    encoding = perturbed(make_encoding("dape_v2(alibi)", 3))
    q, k, _ = qkv(3, 9)
    at = At(announced_length=9, ids=torch.arange(9))
    bias = encoding.bias(q, k, replace(at, shared=encoding.prepare(at)))
    (gradient,) = torch.autograd.grad(bias[0, 0, 6, 4], k)
    seen = gradient[0].abs().amax((0, 2)) > 0
    assert seen.tolist() == [False, False, True, True, True, True, True, False, False], "two convolutions over three keys"
    short = replace(at, ids=torch.arange(7))
    cut = encoding.bias(q[:, :, :7], k[:, :, :7], replace(short, shared=encoding.prepare(short)))
    assert_same(cut.tril(), bias[..., :7, :7].tril(), atol=1e-12)


def test_dape_around_an_encoding_without_bias_uses_zeros():
    encoding = perturbed(make_encoding("dape(rope)", 3))
    q, k, v = qkv(3, 10)
    at = At(announced_length=10, ids=torch.arange(10))
    turned = encoding.rotate(q, k, replace(at, shared=encoding.prepare(at)))
    network = [parameter[0] for parameter in (encoding.w1, encoding.b1, encoding.w2, encoding.b2)]
    slow = content.dape(*turned, v, torch.zeros(3, 10, 10, dtype=torch.float64), *network)
    assert_same(attention(encoding, q, k, v), slow, atol=1e-9)


@pytest.mark.parametrize("wrapper", ["dape", "dape_v2"])
def test_dape_accepts_a_bias_that_all_heads_share(wrapper):
    encoding = perturbed(make_encoding(f"{wrapper}(rope_nope_scaled(window=3))", 3))
    q, k, _ = qkv(3, 10)
    at = At(announced_length=10, ids=torch.arange(10))
    at = replace(at, shared=encoding.prepare(at))
    shared = encoding.base.bias(q, k, at)
    assert shared.shape == (1, 10, 10)
    adapted = encoding.bias(q, k, at)
    encoding.base.bias = lambda q, k, at: shared.expand(2, 3, 10, 10)
    assert_same(adapted, encoding.bias(q, k, at), atol=1e-9)


def test_dape_has_the_published_number_of_parameters_and_the_initialisation_of_linear():
    for heads in (3, 8):
        encoding = make_encoding("dape(alibi)", heads, layers=1)
        assert sum(p.numel() for p in encoding.parameters()) == 97 * heads + 32
        assert encoding.w1.abs().max() <= (2 * heads) ** -0.5
        assert encoding.w2.abs().max() <= 32**-0.5
        second = make_encoding("dape_v2(alibi)", heads, layers=1)  # of kernel 3
        assert sum(p.numel() for p in second.parameters()) == 3 * 96 * heads + heads + 32
        assert second.w1.abs().max() <= (6 * heads) ** -0.5
    assert make_encoding("dape(alibi)", 64).w1.std().item() == pytest.approx(128**-0.5 / math.sqrt(3), rel=0.05)


# --- ssmax, logn


@oracle("ssmax(nope)", "ssmax(rope)", against="the wrapped encoding with scaled queries")
@pytest.mark.parametrize("inner", ["nope", "rope"])
@shapes
def test_ssmax_is_the_formula(heads, length, layer, inner):
    encoding = perturbed(make_encoding(f"ssmax({inner})", heads))
    q, k, v = qkv(heads, length)
    logs = torch.tensor([math.log(n) for n in range(1, length + 1)], dtype=torch.float64)
    expected = attention(encoding.base, q * (encoding.s[layer][:, None] * logs)[..., None], k, v, layer=layer)
    tensors = [q, k, v, encoding.s] if length > 1 else ()
    assert_same(attention(encoding, q, k, v, layer=layer), expected, tensors, atol=1e-10)


@oracle("logn(nope)", "logn(rope)", against="the wrapped encoding with scaled queries")
@pytest.mark.parametrize("setting", ["", ",only_past=True"])
@pytest.mark.parametrize("inner", ["nope", "rope"])
@shapes
def test_logn_is_the_formula(heads, length, layer, inner, setting):
    encoding = make_encoding(f"logn({inner}{setting})", heads)
    q, k, v = qkv(heads, length)
    factors = [max(math.log(n) / math.log(12), 1.0 if setting else 0.0) for n in range(1, length + 1)]
    expected = attention(encoding.base, q * torch.tensor(factors, dtype=torch.float64)[:, None], k, v, layer=layer)
    assert_same(attention(encoding, q, k, v, layer=layer), expected, [q, k, v] if length > 1 else (), atol=1e-10)


def test_ssmax_golden_starts():
    for tokens, start in ((40, 0.36258), (64, 0.31194), (1024, 0.16847)):
        s = make_encoding("ssmax(nope)", 3, train_tokens=tokens, longest_tokens=2000).s
        assert s.shape == (2, 3)
        assert (s - start).abs().max() < 1e-5


@pytest.mark.parametrize("name", ["ssmax", "logn"])
def test_the_number_of_keys_does_not_depend_on_position_ids(name):
    q, k, v = qkv(3, 12)
    ids = torch.arange(12) * 7 + 3
    assert torch.equal(
        attention(make_encoding(f"{name}(nope)", 3), q, k, v, ids), attention(make_encoding(f"{name}(nope)", 3), q, k, v)
    )
    encoding = make_encoding(f"{name}(randomised(rope))", 3)
    at = At(announced_length=12, ids=ids)
    at = replace(at, shared=encoding.prepare(at))
    turned, _ = encoding.rotate(q, k, at)
    rope = make_encoding("rope", 3)
    plain, _ = rope.rotate(q, k, replace(at, shared=rope.prepare(at)))
    ratio = (turned / plain)[0, 0, :, 0]
    expected = torch.arange(1, 13, dtype=torch.float64).log()
    torch.testing.assert_close(ratio / ratio[-1], expected / expected[-1], atol=1e-6, rtol=0)
