"""Oracles of NoPE and absolute encodings: transformers, x-transformers, torch, or a slow loop."""

from dataclasses import replace

import loop_oracles as loops
import pytest
import torch
from helpers import (
    HEAD_WIDTH,
    UNEVEN_IDS,
    assert_same,
    attention,
    make_encoding,
    oracle,
    qkv,
)
from torch import nn
from x_transformers import x_transformers

from bench.encodings import At, Encoding

TRAIN, LONGEST = 12, 120
"""L and L′ in tokens of the encodings here."""
SHAPES = [(1, 5), (2, 1), (3, 30), (5, 7), (6, 12), (12, 18)]
"""Heads and tokens: odd head counts, a single token, lengths below, at and past L."""
shapes = pytest.mark.parametrize(("heads", "length"), SHAPES)

# --- nope


@oracle("nope", against="a loop over queries and keys")
@shapes
def test_nope_is_plain_masked_softmax(heads, length):
    inputs = qkv(heads, length)
    q, k, v = inputs
    slow = loops.attend(loops.plain_scores(q, k), v)
    assert_same(attention(make_encoding("nope", heads), *inputs), slow, inputs, atol=1e-10)


# --- sinusoidal


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
@pytest.mark.parametrize("ids", [torch.arange(30), UNEVEN_IDS, UNEVEN_IDS * 1000], ids=["past L", "by row", "far"])
def test_sinusoidal_every_layer_is_the_formula(ids, base):
    """Up to 91,000, where angles in float32 would be wrong in the third digit."""
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
