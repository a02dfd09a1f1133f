"""Oracles of ALiBi and T5 and their variants: transformers, x-transformers, whole numbers."""

import math

import pytest
import torch
from helpers import (
    HEAD_WIDTH,
    UNEVEN_IDS,
    assert_same,
    attention,
    make_encoding,
    oracle,
    perturbed,
    qkv,
)
from transformers import T5Config
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention
from x_transformers import x_transformers

from bench.encodings import At, alibi, t5

odd_heads = pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 24])


# --- t5

T5_TABLES = [(32, 128), (64, 128), (32, 256), (32, 512), (32, 1024), (16, 64), (8, 20), (4, 64), (2, 5)]


def exact_bucket(r: int, count: int, furthest: int) -> int:
    """Floor of the logarithm by whole numbers alone: ln(r/e)/ln(m/e)·n ≥ k ⇔ rⁿ·eᵏ ≥ mᵏ·eⁿ."""
    e, n = count // 2, count - count // 2
    if r < e:
        return r
    k = 0
    while k < n - 1 and r**n * e ** (k + 1) >= furthest ** (k + 1) * e**n:
        k += 1
    return e + k


@pytest.mark.parametrize(("count", "furthest"), [*T5_TABLES, (32, 17), (32, 40), (5, 30)])
def test_t5_buckets_are_exact(count, furthest):
    far = [*range(min(2 * furthest, 1100)), 5000, 10**6]
    assert t5.buckets(torch.tensor(far), count, furthest).tolist() == [exact_bucket(r, count, furthest) for r in far]


def test_t5_later_keys_are_in_the_first_bucket():
    assert (t5.buckets(torch.arange(-50, 1), 32, 128) == 0).all(), "the mask hides them"


@oracle("t5", "t5_scaled", against="transformers T5Attention.compute_bias")
@pytest.mark.parametrize(
    ("name", "furthest", "count"),
    [
        ("t5(buckets=32,max_distance=128)", 128, 32),
        ("t5(buckets=16,max_distance=64)", 64, 16),
        *[("t5_scaled", *sizes) for sizes in [(23, 11), (40, 20), (64, 32), (300, 32), (12, 6)]],  # the first is L in tokens
    ],
)
def test_t5_bias_equals_transformers(name, furthest, count):
    heads, length = 5, 200
    config = T5Config(
        num_heads=heads,
        d_kv=HEAD_WIDTH,
        d_model=heads * HEAD_WIDTH,
        relative_attention_num_buckets=count,
        relative_attention_max_distance=furthest,
        is_decoder=True,
    )
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    encoding = perturbed(make_encoding(name, heads, train_tokens=furthest))
    assert encoding.table.shape == (count, heads)
    theirs.relative_attention_bias.weight = encoding.table
    lower = torch.ones(length, length).tril()
    ours = encoding.prepare(At(announced_length=length, ids=torch.arange(length)))
    expected = theirs.compute_bias(length, length)[0]
    assert_same(ours * lower, expected * lower, [encoding.table], atol=1e-12)


def test_t5_with_ids_by_row():
    encoding = make_encoding("t5", 3)
    bias = encoding.prepare(At(announced_length=7, ids=UNEVEN_IDS))
    assert bias.shape == (2, 3, 7, 7)
    for b, i, j in [(0, 6, 3), (0, 5, 5), (1, 5, 0), (1, 4, 2), (1, 6, 5)]:
        bucket = exact_bucket(int(UNEVEN_IDS[b, i] - UNEVEN_IDS[b, j]), 32, 128)
        assert torch.equal(bias[b, :, i, j], encoding.table[bucket])


def test_t5_is_initialised_as_declared():
    table = make_encoding("t5(buckets=64)", 24).table
    assert table.std().item() == pytest.approx((24 * HEAD_WIDTH) ** -0.5, rel=0.05)


# --- alibi


@oracle("alibi", against="transformers bloom and mpt")
@pytest.mark.parametrize(("heads", "length"), [(3, 30), (5, 7), (6, 100), (12, 18)])
def test_alibi_attention_equals_bloom_and_mpt(heads, length):
    inputs = qkv(heads, length)
    ours = attention(make_encoding("alibi", heads), *inputs)
    # Both add +m·j or m·(j − T + 1), the same after the softmax.
    bloom = build_alibi_tensor(torch.ones(2, length), heads, torch.float64).view(2, heads, 1, length)
    mpt = build_mpt_alibi_tensor(heads, length).double()
    future = torch.full((length, length), -math.inf, dtype=torch.float64).triu(1)
    for bias in (bloom, mpt):
        q, k, v = inputs
        theirs = (q @ k.mT / math.sqrt(HEAD_WIDTH) + bias + future).softmax(-1) @ v
        assert_same(ours, theirs, inputs, atol=1e-5)


@oracle("alibi", against="x-transformers AlibiPositionalBias")
@odd_heads
def test_alibi_bias_equals_x_transformers(heads):
    encoding, theirs = make_encoding("alibi", heads), x_transformers.AlibiPositionalBias(heads)
    ours = encoding.prepare(At(announced_length=60, ids=torch.arange(60)))
    torch.testing.assert_close(ours.tril(), theirs(60, 60).tril(), atol=1e-5, rtol=1e-6)
    by_row = encoding.prepare(At(announced_length=7, ids=UNEVEN_IDS))
    torch.testing.assert_close(by_row.tril(), theirs.forward_custom_pos(UNEVEN_IDS).tril(), atol=1e-5, rtol=1e-6)


def test_alibi_is_exact_at_large_positions():
    # In float32 m·j − m·i would be off by whole units out here, in bf16 distances themselves would be from 257 on.
    encoding = make_encoding("alibi", 6)
    places = torch.cat([torch.arange(10), torch.arange(10, 5000, 99)])
    near, far = (encoding.prepare(At(announced_length=5000, ids=places + shift)) for shift in (0, 10**8))
    assert torch.equal(near, far)
    expected = -torch.tensor(alibi.slopes(6))[:, None, None] * (places[:, None] - places)
    torch.testing.assert_close(near.tril(), expected.tril(), atol=0, rtol=1e-6)


# --- t5, sized to L


def test_t5_scaled_has_no_untrained_bucket():
    for train in (*range(4, 80), 100, 128, 200, 1000):
        encoding = make_encoding("t5_scaled", 1, train_tokens=train)
        # The last token predicts nothing, so the largest distance in training is L − 2.
        trained = t5.buckets(torch.arange(train - 1), encoding.count, encoding.max_distance).unique()
        beyond = t5.buckets(torch.arange(train - 1, 10 * train), encoding.count, encoding.max_distance).unique()
        assert beyond.tolist() == [encoding.count - 1] and beyond[0] in trained, train


@pytest.mark.parametrize("train", [1, 2, 3])
def test_t5_scaled_is_defined_for_the_shortest_sequences(train):
    encoding = make_encoding("t5_scaled", 1, train_tokens=train)
    assert encoding.prepare(At(announced_length=50, ids=torch.arange(50))).isfinite().all()


# --- alibi, learned and halved


@oracle("alibi_learned", against="x-transformers AlibiPositionalBias")
@odd_heads
def test_alibi_learned_equals_x_transformers(heads):
    encoding, ids = make_encoding("alibi_learned", heads), torch.arange(40)
    slopes = torch.linspace(-6, 1, heads).exp()
    for theirs in (
        x_transformers.AlibiPositionalBias(heads),
        x_transformers.AlibiPositionalBias(heads, slopes=slopes.tolist()),
    ):
        bias = encoding.prepare(At(40, ids=ids))
        torch.testing.assert_close(bias.tril(), theirs(40, 40).double().tril(), atol=1e-5, rtol=1e-6)
        (gradient,) = torch.autograd.grad(bias.sum(), encoding.log_slopes)
        torch.testing.assert_close(gradient, bias.sum((1, 2)), msg="the bias is linear in the slope, exp(log_slope)")
        with torch.no_grad():
            encoding.log_slopes.copy_(slopes.log())


@oracle("alibi_half", against="x-transformers AlibiPositionalBias with fewer heads than in total")
@odd_heads
def test_alibi_half_equals_x_transformers(heads):
    theirs = x_transformers.AlibiPositionalBias(math.ceil(heads / 2), total_heads=heads)
    ours = make_encoding("alibi_half", heads).prepare(At(60, ids=torch.arange(60)))
    torch.testing.assert_close(ours.tril(), theirs(60, 60).tril(), atol=1e-5, rtol=1e-6)
    by_row = make_encoding("alibi_half", heads).prepare(At(7, ids=UNEVEN_IDS))
    torch.testing.assert_close(by_row.tril(), theirs.forward_custom_pos(UNEVEN_IDS).tril(), atol=1e-5, rtol=1e-6)


def test_alibi_half_has_no_bias_in_the_other_heads():
    inputs = qkv(4, 30)
    ours, nope = (attention(make_encoding(name, 4), *inputs) for name in ("alibi_half", "nope"))
    assert torch.allclose(ours[:, 2:], nope[:, 2:]) and not torch.allclose(ours[:, :2], nope[:, :2], atol=1e-2)
    assert make_encoding("alibi_half", 4).slopes().tolist() == [1 / 16, 1 / 256, 0, 0]
    assert make_encoding("alibi_half", 1).slopes().tolist() == alibi.slopes(1), "a single head has ALiBi"
