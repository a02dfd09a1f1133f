"""Oracles of absolute encodings, T5, ALiBi and RoPE: comparison with transformers, x-transformers, torch, or a slow loop.

The oracle of an encoding is a test decorated with ``@oracle(name, against=...)`` that compares values and gradients. Other
encodings are in ``test_encodings_oracles_<group>.py``; the last test here checks that every encoding has an oracle.
"""

import importlib
import math
from dataclasses import replace
from pathlib import Path

import loop_oracles as loops
import pytest
import torch
from helpers import (
    HEAD_WIDTH,
    NAMES,
    ORACLES,
    UNEVEN_IDS,
    assert_same,
    attention,
    make_encoding,
    oracle,
    perturbed,
    qkv,
    slow_attention,
)
from torch import nn
from transformers import LlamaConfig, T5Config
from transformers.models.bloom.modeling_bloom import _get_alibi_slopes, build_alibi_tensor
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention
from x_transformers import x_transformers

from bench.encodings import At, Encoding, alibi, rope, sinusoidal, t5

TRAIN, LONGEST = 12, 120
"""L and L′ in tokens of the encodings here."""
SHAPES = [(1, 5), (2, 1), (3, 30), (5, 7), (6, 12), (12, 18)]
"""Heads and tokens: odd head counts, a single token, lengths below, at and past L."""
shapes = pytest.mark.parametrize(("heads", "length"), SHAPES)
odd_heads = pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 24])

# --- nope


@oracle("nope", against="a loop over queries and keys")
@shapes
def test_nope_is_plain_masked_softmax(heads, length):
    inputs = qkv(heads, length)
    assert_same(attention(make_encoding("nope", heads), *inputs), slow_attention(*inputs), inputs, atol=1e-10)


# --- sinusoidal


def test_sinusoid_golden_numbers():
    pe = sinusoidal.sinusoids(torch.tensor([0, 1]), 8)
    assert pe[0].tolist() == [0, 1] * 4
    torch.testing.assert_close(pe[1, 0::2], torch.tensor([0.84147098, 0.09983342, 0.00999983, 0.001]), atol=1e-7, rtol=0)
    torch.testing.assert_close(pe[1, 1::2], torch.tensor([0.54030231, 0.99500417, 0.99995, 0.9999995]), atol=1e-7, rtol=0)


def plain_sinusoid(position: int, width: int, base: float) -> list[float]:
    row = []
    for t in range(width // 2):
        angle = position / base ** (2 * t / width)
        row += [math.sin(angle), math.cos(angle)]
    return row


def test_sinusoids_at_far_and_batched_positions():
    ids = UNEVEN_IDS * 1000  # up to 91,000, where angles in float32 would be wrong in the third digit
    expected = [[plain_sinusoid(p, 24, 10000.0) for p in row] for row in ids.tolist()]
    torch.testing.assert_close(sinusoidal.sinusoids(ids, 24), torch.tensor(expected), atol=1e-7, rtol=0)


@oracle("sinusoidal", against="x-transformers ScaledSinusoidalEmbedding")
@pytest.mark.parametrize("heads", [1, 3, 5])
def test_sinusoidal_equals_x_transformers(heads):
    width = heads * HEAD_WIDTH
    encoding, theirs = make_encoding("sinusoidal", heads), x_transformers.ScaledSinusoidalEmbedding(width)
    x = torch.randn(2, 100, width, dtype=torch.float64, requires_grad=True)
    sin, cos = (theirs(x).double() / theirs.scale.double()).detach().chunk(2, -1)  # not interleaved, and with a learned scale
    at = At(announced_length=100, ids=torch.arange(100))
    at = replace(at, shared=encoding.prepare(at))
    assert_same(encoding.embed(x, at), x + torch.stack([sin, cos], -1).flatten(-2), [x], atol=1e-5)
    assert torch.equal(encoding.embed(x, replace(at, layer=1)), x), "added once, at the input"


# --- learned


@oracle("learned", against="torch.nn.Embedding")
@pytest.mark.parametrize("ids", [torch.arange(7), torch.arange(TRAIN + 8), UNEVEN_IDS], ids=["short", "past L", "by row"])
@pytest.mark.parametrize("heads", [1, 3, 5, 12])
def test_learned_is_an_embedding_of_positions(heads, ids):
    encoding = make_encoding("learned", heads, train_tokens=TRAIN)
    theirs = nn.Embedding(*encoding.table.shape)
    theirs.weight = encoding.table
    x = torch.randn(2, ids.shape[-1], heads * HEAD_WIDTH, dtype=torch.float64, requires_grad=True)
    at = At(announced_length=20, ids=ids)
    assert_same(encoding.embed(x, at), x + theirs(ids), [x, encoding.table], atol=1e-12)
    assert torch.equal(encoding.embed(x, At(announced_length=20, ids=ids, layer=1)), x), "added once, at the input"


def test_learned_rows_are_initialised_as_declared_and_never_clamped():
    encoding = make_encoding("learned", 12, train_tokens=TRAIN, longest_tokens=300)
    assert encoding.table.shape == (300, 12 * HEAD_WIDTH), "one row for every place up to L′, the last one included"
    for rows in (encoding.table[:TRAIN], encoding.table[TRAIN:]):
        assert abs(rows.std().item() - 0.02) < 0.002
        assert abs(rows.mean().item()) < 0.003
    assert make_encoding("learned(init_std=1.0)", 12).table.std().item() == pytest.approx(1, abs=0.05)
    with pytest.raises(IndexError):
        encoding.embed(torch.zeros(1, 301, 96), At(announced_length=301, ids=torch.arange(301)))


# --- sinusoidal, in every layer


@oracle("sinusoidal_every_layer", against="a loop with math.sin")
@pytest.mark.parametrize("base", [10000.0, 100.0])
@pytest.mark.parametrize("ids", [torch.arange(30), UNEVEN_IDS], ids=["past L", "by row"])
def test_sinusoidal_every_layer_is_the_formula(ids, base):
    encoding = make_encoding(f"sinusoidal_every_layer(base={base})", 3)
    width = 3 * HEAD_WIDTH
    x = torch.randn(2, ids.shape[-1], width, dtype=torch.float64, requires_grad=True)
    halves = torch.stack([loops.halved_sinusoid(p, width, base) for p in ids.flatten().tolist()])
    expected = torch.stack(halves.chunk(2, -1), -1).reshape(*ids.shape, width)  # sine, cosine, sine …
    at = At(announced_length=ids.shape[-1], ids=ids)
    at = replace(at, shared=encoding.prepare(at))
    for layer in (0, 1):
        assert_same(encoding.embed(x, replace(at, layer=layer)), x + expected, [x], atol=1e-7)


# --- learned, per layer and with offsets


@oracle("learned_per_layer", against="torch.nn.Embedding")
@pytest.mark.parametrize("ids", [torch.arange(7), torch.arange(TRAIN + 8), UNEVEN_IDS], ids=["short", "past L", "by row"])
@pytest.mark.parametrize("heads", [1, 3, 5])
def test_learned_per_layer_is_one_embedding_per_layer(heads, ids):
    encoding = make_encoding("learned_per_layer", heads, train_tokens=TRAIN, longest_tokens=LONGEST)
    assert encoding.table.shape == (2, LONGEST, heads * HEAD_WIDTH)
    assert abs(encoding.table.std().item() - 0.02) < 0.002
    x = torch.randn(2, ids.shape[-1], heads * HEAD_WIDTH, dtype=torch.float64, requires_grad=True)
    for layer in (0, 1):
        theirs = nn.Embedding.from_pretrained(encoding.table[layer].detach(), freeze=False)
        ours, expected = encoding.embed(x, At(announced_length=20, ids=ids, layer=layer)), x + theirs(ids)
        assert_same(ours, expected, [x], atol=1e-12)
        weights = torch.randn(ours.shape, dtype=torch.float64)
        (found,) = torch.autograd.grad((ours * weights).sum(), encoding.table)
        (wanted,) = torch.autograd.grad((expected * weights).sum(), theirs.weight)
        torch.testing.assert_close(found[layer], wanted)
        assert found[1 - layer].abs().max() == 0


def offset_ids(encoding: Encoding, rows: int, length: int, announced_length: int, seed: int = 0) -> torch.Tensor:
    at = At(announced_length=announced_length, generator=torch.Generator().manual_seed(seed))
    return encoding.positions(torch.zeros(rows, length, dtype=torch.long), at)


@oracle("learned_offset", against="torch.nn.Embedding; the distribution of offsets by counting")
def test_learned_offset_is_an_embedding_of_shifted_positions():
    encoding = make_encoding("learned_offset", 3, train_tokens=TRAIN, longest_tokens=LONGEST)
    theirs = nn.Embedding(LONGEST + TRAIN, 3 * HEAD_WIDTH)
    theirs.weight = encoding.table
    x = torch.randn(4, TRAIN, 3 * HEAD_WIDTH, dtype=torch.float64, requires_grad=True)
    for training in (True, False):
        ids = offset_ids(encoding.train(training), 4, TRAIN, TRAIN)
        first = ids[..., :1] if training else torch.zeros(1, dtype=torch.long)
        assert torch.equal(ids, first + torch.arange(TRAIN)), "one offset per sequence in training, none in evaluation"
        ours = encoding.embed(x, At(announced_length=TRAIN, ids=ids))
        assert_same(ours, x + theirs(first + torch.arange(TRAIN)), [x, encoding.table], atol=1e-12)
        assert torch.equal(encoding.embed(x, At(announced_length=TRAIN, ids=ids, layer=1)), x), "added once, at the input"


def test_offsets_are_uniform_and_train_every_row_of_a_test_alike():
    encoding = make_encoding("learned_offset", 1, train_tokens=TRAIN, longest_tokens=LONGEST).train()
    assert len(encoding.table) == LONGEST + TRAIN
    drawn = offset_ids(encoding, 20_000, TRAIN, TRAIN)
    counts = torch.bincount(drawn[:, 0], minlength=LONGEST)
    assert len(counts) == LONGEST + 1, "0 … L′, both ends included"
    expected = 20_000 / (LONGEST + 1)
    assert ((counts - expected).square() / expected).sum() < 1.5 * LONGEST  # χ² of as many degrees of freedom
    shortest = torch.bincount(drawn[:, :3].flatten(), minlength=LONGEST)[2:LONGEST]
    assert shortest.min() > 0.7 * shortest.max(), "short sequences train the rows next to L′ too"


def test_offsets_depend_only_on_the_announced_length():
    encoding = make_encoding("learned_offset", 1, train_tokens=TRAIN, longest_tokens=LONGEST).train()
    whole = offset_ids(encoding, 50, 40, announced_length=40)
    assert torch.equal(offset_ids(encoding, 50, 9, announced_length=40), whole[:, :9])
    assert offset_ids(encoding, 500, LONGEST, announced_length=LONGEST).max() == LONGEST + TRAIN - 1
    assert torch.equal(offset_ids(encoding, 5, 3, announced_length=LONGEST + TRAIN + 9), torch.arange(3).expand(5, -1))


# --- t5

T5_TABLES = [(32, 128), (64, 128), (32, 256), (32, 512), (32, 1024), (16, 64), (8, 20), (4, 64), (2, 5)]


@pytest.mark.parametrize(("count", "furthest"), T5_TABLES)
def test_t5_buckets_equal_transformers_and_x_transformers(count, furthest):
    r = torch.arange(5001)
    ours = t5.buckets(r, count, furthest)
    settings = {"num_buckets": count, "max_distance": furthest}
    assert torch.equal(ours, T5Attention._relative_position_bucket(-r, bidirectional=False, **settings))
    assert torch.equal(ours, x_transformers.RelativePositionBias._relative_position_bucket(-r, causal=True, **settings))


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
@pytest.mark.parametrize(("heads", "length"), [(3, 30), (5, 200), (12, 150)])
def test_t5_bias_equals_transformers(heads, length, name, furthest, count):
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


@odd_heads
def test_alibi_slopes_equal_bloom_mpt_and_x_transformers(heads):
    ours = torch.tensor(alibi.slopes(heads))
    torch.testing.assert_close(ours, _get_alibi_slopes(heads, torch.device("cpu")), atol=0, rtol=1e-6)
    torch.testing.assert_close(ours, torch.tensor(x_transformers.AlibiPositionalBias._get_slopes(heads)), atol=0, rtol=1e-6)
    mpt = -build_mpt_alibi_tensor(heads, 2)[:, 0, 0]  # the bias of distance 1
    torch.testing.assert_close(ours, mpt, atol=0, rtol=1e-6)


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


# --- rope

ROPE_SHAPES = [(1, 5, 8), (2, 1, 2), (3, 30, 8), (5, 7, 6), (12, 40, 16)]
rope_shapes = pytest.mark.parametrize(("heads", "length", "width"), ROPE_SHAPES)


def rotated(encoding, q, k, ids):
    at = At(announced_length=100, ids=ids)
    return encoding.rotate(q, k, replace(at, shared=encoding.prepare(at)))


def angles(ids: torch.Tensor, width: int, base: float) -> torch.Tensor:
    """p/base^(2t/d) by Python's own arithmetic."""
    flat = [[p / base ** (2 * t / width) for t in range(width // 2)] for p in ids.flatten().tolist()]
    return torch.tensor(flat, dtype=torch.float64).view(*ids.shape, width // 2)


@oracle("rope", against="transformers apply_rotary_pos_emb (Llama)")
@pytest.mark.parametrize("base", [10000.0, 500.0])
@rope_shapes
def test_rope_equals_llama(heads, length, width, base):
    q, k, _ = qkv(heads, length, head_width=width)
    ids = torch.arange(length)
    freqs = angles(ids[None], width, base)
    both = torch.cat([freqs, freqs], -1)
    theirs = modeling_llama.apply_rotary_pos_emb(q, k, both.cos(), both.sin())
    ours = rotated(make_encoding(f"rope(base={base})", heads, width), q, k, ids)
    assert_same(torch.stack(ours), torch.stack(theirs), [q, k])


def interleaved(x: torch.Tensor) -> torch.Tensor:
    """Channels t and t + d/2, our pairs, at 2t and 2t + 1, those of the authors."""
    return x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)


@oracle("rope", against="transformers apply_rotary_pos_emb (GPT-J, as ZhuiyiTechnology/roformer)")
@rope_shapes
def test_rope_equals_gptj(heads, length, width):
    q, k, _ = qkv(heads, length, head_width=width)
    sin, cos = modeling_gptj.create_sinusoidal_positions(length, width).chunk(2, -1)
    theirs = [modeling_gptj.apply_rotary_pos_emb(interleaved(x).transpose(1, 2), sin[None], cos[None]) for x in (q, k)]
    ours = rotated(make_encoding("rope", heads, width), q, k, torch.arange(length))
    assert_same(interleaved(torch.stack(ours)), torch.stack(theirs).transpose(2, 3), [q, k], atol=3e-5)


@pytest.mark.parametrize("width", [2, 6, 16, 64])
def test_rope_angles_equal_those_of_llama(width):
    config = LlamaConfig(hidden_size=width * 3, num_attention_heads=3, max_position_embeddings=50)
    cos, sin = modeling_llama.LlamaRotaryEmbedding(config)(torch.zeros(1), torch.arange(200)[None])
    encoding = make_encoding("rope", 3, width)
    ours = encoding.prepare(At(announced_length=200, ids=torch.arange(200)))
    for found, theirs in zip(ours, (cos, sin), strict=True):
        torch.testing.assert_close(torch.cat([found, found], -1), theirs, atol=3e-5, rtol=0)


def test_rope_with_ids_by_row():
    q, k, _ = qkv(3, 7)
    encoding = make_encoding("rope", 3)
    whole = torch.stack(rotated(encoding, q, k, UNEVEN_IDS))
    for row, ids in enumerate(UNEVEN_IDS):
        one = slice(row, row + 1)
        assert_same(whole[:, one], torch.stack(rotated(encoding, q[one], k[one], ids)), atol=1e-12)


def test_rope_angles_are_exact_at_large_positions():
    # In float32 an angle of 10⁶ radians is off by several hundredths.
    ids = torch.tensor([10**6 + 1])
    cos, sin = make_encoding("rope", 3).prepare(At(announced_length=1, ids=ids))
    expected = angles(ids, HEAD_WIDTH, 10000.0)
    torch.testing.assert_close(cos[0].double(), expected.cos(), atol=1e-6, rtol=0)
    torch.testing.assert_close(sin[0].double(), expected.sin(), atol=1e-6, rtol=0)
    assert rope.frequencies(HEAD_WIDTH, 10000.0).dtype == torch.float64


# --- all encodings


def test_every_encoding_has_an_oracle():
    for path in sorted(Path(__file__).parent.glob("test_encodings_*.py")):
        importlib.import_module(path.stem)
    assert sorted(ORACLES) == sorted(NAMES), "every encoding needs an @oracle test, and nothing else"
