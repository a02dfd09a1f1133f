"""Oracles of encodings that choose position ids: randomised, interpolated, abacus, position coupling."""

import math
from dataclasses import replace

import loop_oracles as loops
import numpy as np
import pytest
import torch
from helpers import (
    ANNOUNCED_SHAPES,
    HEAD_WIDTH,
    NAMES,
    assert_same,
    attention,
    context,
    make_encoding,
    oracle,
    perturbed,
    qkv,
    random_tokens,
    setup_of,
    spec_of,
)
from torch import Tensor
from x_transformers import x_transformers

import tasks
from bench import encodings
from bench.encodings import At, Encoding
from bench.plugins.registry import get_encoding

# --- randomised


def drawn(encoding: Encoding, length: int, announced_length: int, seed: int = 0) -> Tensor:
    return encoding.positions(
        torch.zeros(2, length, dtype=torch.long), At(announced_length, generator=torch.Generator().manual_seed(seed))
    )


INNER = ("learned", "sinusoidal", "rope", "alibi", "t5", "fire")


@oracle(*(f"randomised({name})" for name in INNER), against="the wrapped encoding at the ids drawn")
@pytest.mark.parametrize("length", [1, 12, 30, 120])
@pytest.mark.parametrize("name", INNER)
def test_randomised_is_the_wrapped_encoding_at_the_ids_drawn(name, length):
    encoding = perturbed(make_encoding(f"randomised({name})", 3))
    ids = drawn(encoding, length, length)
    assert loops.are_randomised_ids(ids, 120)
    assert torch.equal(ids, torch.arange(length)) == (length == 120), "at the longest length all ids are drawn"
    inputs = qkv(3, length)
    expected = attention(encoding.base, *inputs, ids=ids)
    assert_same(attention(encoding, *inputs), expected, inputs if length > 1 else (), atol=1e-12)
    x = torch.randn(2, length, 24, dtype=torch.float64)
    at = At(announced_length=length, ids=ids)
    at = replace(at, shared=encoding.prepare(at))
    assert torch.equal(encoding.embed(x, at), encoding.base.embed(x, at))
    if name == "learned":
        assert_same(encoding.embed(x, at), x + encoding.base.table[ids], atol=1e-12)


def test_randomised_ids_are_a_uniform_subset_of_the_range():
    encoding = make_encoding("randomised(rope)", 3, longest_tokens=10)
    draws = torch.stack([drawn(encoding, 4, 4, seed) for seed in range(4000)])
    assert all(loops.are_randomised_ids(ids, 10) for ids in draws)
    often = torch.bincount(draws.flatten(), minlength=10) / 4000
    assert (often - 0.4).abs().max() < 5 * math.sqrt(0.4 * 0.6 / 4000), "each id is in 4 of 10 draws"
    assert len({tuple(ids.tolist()) for ids in draws}) == math.comb(10, 4)


def test_randomised_draws_for_the_announced_length_and_takes_the_first():
    encoding = make_encoding("randomised(rope)", 3)
    whole = drawn(encoding, 40, 40)
    for length in (1, 7, 39):
        assert torch.equal(drawn(encoding, length, 40), whole[:length])
    assert not torch.equal(drawn(encoding, 40, 40, seed=1), whole)
    assert torch.equal(drawn(encoding.eval(), 40, 40), whole), "drawn in evaluation as in training"
    assert torch.equal(drawn(encoding, 120, 120), torch.arange(120)), "at the longest length no id is left out"


def test_randomised_rejects_lengths_it_cannot_draw():
    encoding = make_encoding("randomised(rope)", 3)
    with pytest.raises(ValueError, match="121"):
        drawn(encoding, 5, 121)
    with pytest.raises(ValueError, match="sequence of 6"):
        drawn(encoding, 6, 5)
    with pytest.raises(tasks.InputError, match="longest ≥ 120"):
        make_encoding("randomised(rope, longest=119)", 3)


def test_randomised_tables_grow_with_longest():
    encoding = make_encoding("randomised(learned, longest=2048)", 3)
    assert encoding.base.table.shape[0] == 2048
    ids = torch.cat([drawn(encoding, 40, 40, seed) for seed in range(50)])
    assert 1900 < ids.max() < 2048
    assert make_encoding("randomised(t5, longest=2048)", 3).base.table.shape == (32, 3), "T5 has no row for each place"


# --- interpolated


@oracle("interpolated(sinusoidal)", against="a loop with math.sin")
@pytest.mark.parametrize(("heads", "length", "announced_length"), ANNOUNCED_SHAPES)
def test_interpolated_sinusoids_are_the_formula(heads, length, announced_length):
    encoding = make_encoding("interpolated(sinusoidal)", heads)
    width, s = heads * HEAD_WIDTH, max(1, announced_length / 12)
    x = torch.randn(2, length, width, dtype=torch.float64, requires_grad=True)
    rows = [[(p / s) / 10000 ** (2 * t / width) for t in range(width // 2)] for p in range(length)]
    expected = torch.tensor([[f(a) for a in row for f in (math.sin, math.cos)] for row in rows], dtype=torch.float64)
    assert_same(encoding.embed(x, context(encoding, length, announced_length, layer=0)), x + expected, [x])


@oracle("interpolated(alibi)", against="x-transformers AlibiPositionalBias at fractional positions")
@pytest.mark.parametrize(("heads", "length", "announced_length"), ANNOUNCED_SHAPES)
def test_interpolated_alibi_equals_x_transformers(heads, length, announced_length):
    encoding = make_encoding("interpolated(alibi)", heads)
    fractions = torch.arange(length) / max(1, announced_length / 12)
    expected = x_transformers.AlibiPositionalBias(heads).forward_custom_pos(fractions.double())
    at = context(encoding, length, announced_length)
    assert_same(encoding.bias(None, None, at).tril(), expected.tril(), atol=1e-5)


@pytest.mark.parametrize(
    ("inner", "culprit"), [("learned", "learned"), ("randomised(learned)", "learned"), ("t5(buckets=8)", "t5(buckets=8)")]
)
def test_encodings_with_tables_cannot_be_interpolated(inner, culprit):
    with pytest.raises(tasks.InputError) as caught:
        get_encoding(f"interpolated({inner})")
    assert f"fractions, which {culprit} cannot look up in its table" in str(caught.value)
    assert "such as rope" in str(caught.value)


# --- finetuned


def test_only_finetuned_has_an_extra_stage():
    for name in NAMES:
        cls = get_encoding(name)
        assert (cls.stage is not None) == name.startswith("finetuned(")
        if cls.stage:
            assert 0 < cls.stage.share <= 0.01
            assert cls.info.ranking == "longer"
            assert encodings.hooks(cls) == encodings.hooks(cls.inner)


# --- abacus, position coupling


def addition_ids(name: str, variant: str, training: bool = False, seed: int = 0, longest: int = 20):
    """Symbols of additions of 1 … 6 digits, the ids that an encoding gives them, and the encoding."""
    task = tasks.get("addition", variant, longest)
    examples = task.sample(np.arange(1, 7).repeat(5), 30, np.random.default_rng(seed))
    setup = setup_of(spec_of(), task.tokens(4), task.tokens(longest), task.vocabulary)
    encoding = get_encoding(name).make(setup).train(training)
    tokens = torch.from_numpy(examples.tokens)
    ids = encoding.positions(tokens, At(task.tokens(6), generator=torch.Generator().manual_seed(seed)))
    return [[task.vocabulary.symbols[t] for t in row] for row in examples.tokens], ids, encoding


def table_lookup(encoding: Encoding, ids: Tensor) -> None:
    """Assert that the embedding of the first layer adds the row of each id."""
    encoding = encoding.double()
    x = torch.randn(*ids.shape, 24, dtype=torch.float64, requires_grad=True)
    at = At(announced_length=ids.shape[1], ids=ids)
    expected = torch.stack([torch.stack([encoding.table[p] for p in row]) for row in ids.tolist()]) + x
    assert_same(encoding.embed(x, at), expected, [x, encoding.table], atol=1e-12)
    assert encoding.embed(x, replace(at, layer=1)) is x


@oracle("abacus", against="a loop over tokens")
@pytest.mark.parametrize("variant", ["reversed", "plain", "scratchpad"])
def test_abacus_is_the_place_in_the_run_of_digits(variant):
    texts, ids, encoding = addition_ids("abacus", variant)
    assert ids.tolist() == [loops.abacus_ids(text) for text in texts]
    table_lookup(encoding, ids)


def test_abacus_adds_one_offset_to_all_digits_only_in_training():
    offsets = set()
    for seed in range(300):
        texts, ids, _ = addition_ids("abacus(offset=9)", "reversed", training=True, seed=seed)
        (offset,) = {row[1] - 1 for row in ids.tolist()}  # every row begins <bos> digit
        assert ids.tolist() == [loops.abacus_ids(text, offset) for text in texts]
        offsets.add(offset)
    assert offsets == set(range(10))


def test_abacus_has_a_row_for_every_id_and_only_zeros_without_digits():
    encoding = make_encoding("abacus", 12)
    assert encoding.table.shape == (120 + 99 + 1, 96)
    assert encoding.table.std().item() == pytest.approx(1, abs=0.03)
    digits = torch.full((1, 119), 4)
    at = At(announced_length=120, generator=torch.Generator().manual_seed(0))
    x = torch.zeros(1, 119, 96, dtype=torch.float64)
    assert encoding.embed(x, replace(at, ids=encoding.positions(digits, at))).isfinite().all()
    task = tasks.get("copying")
    words = torch.from_numpy(task.sample(5, 4, np.random.default_rng(0)).tokens)
    setup = setup_of(spec_of(), 13, 60, task.vocabulary)
    assert (get_encoding("abacus").make(setup).positions(words, at) == 0).all()


@oracle("position_coupling", against="a loop over tokens")
@pytest.mark.parametrize("variant", ["reversed", "plain"])
def test_position_coupling_is_the_significance(variant):
    texts, ids, encoding = addition_ids("position_coupling", variant)
    assert ids.tolist() == [loops.coupling_ids(text) for text in texts]
    table_lookup(encoding, ids)


def test_position_coupling_by_hand():
    task = tasks.get("addition", "scratchpad", 4)
    setup = setup_of(spec_of(), task.tokens(4), task.tokens(4), task.vocabulary)
    encoding = get_encoding("position_coupling").make(setup).eval()
    text = "<bos> 3 0 9 + 8 2 9 7 <sep> 1 c1 3 c0 8 c1 8 c0 = 1 3 8 8 <eos> <pad> <pad>"
    expected = [0, 2, 3, 4, 1, 2, 3, 4, 5, 1, 2, 2, 3, 3, 4, 4, 5, 5, 1, 2, 3, 4, 5, 0, 0, 0]
    assert encoding.positions(torch.tensor([task.vocabulary.encode(text)]), At(26)).tolist() == [expected]


def test_position_coupling_trains_every_id_of_a_test():
    starts = set()
    for seed in range(300):
        texts, ids, encoding = addition_ids("position_coupling", "reversed", training=True, seed=seed, longest=8)
        (start,) = {row[text.index("+")] for row, text in zip(ids.tolist(), texts, strict=True)}
        assert ids.tolist() == [loops.coupling_ids(text, start) for text in texts]
        starts.add(start)
    assert starts == set(range(1, encoding.starts + 1))
    assert encoding.starts + 5 == 1 + 9, "the last of 5 digits in training can have the id of the last of 9 in a test"


def test_position_coupling_falls_back_to_plain_positions():
    task = tasks.get("copying")
    setup = setup_of(spec_of(), 13, 60, task.vocabulary)
    encoding = get_encoding("position_coupling").make(setup)
    tokens = torch.from_numpy(task.sample(5, 4, np.random.default_rng(0)).tokens)
    at = At(13, generator=torch.Generator().manual_seed(0))
    assert torch.equal(encoding.eval().positions(tokens, at), torch.arange(1, tokens.shape[1] + 1))
    starts = {int(encoding.train().positions(tokens, at)[0]) for _ in range(2000)}
    assert starts == set(range(1, 49)), "the last of 13 tokens can have the id of the last of 60"
    assert encoding.table.shape[0] > 48 + 59


def test_position_coupling_has_a_row_for_any_generated_text():
    encoding = make_encoding("position_coupling", 3).train()
    assert encoding.table.std().item() == pytest.approx(1, abs=0.05)
    for seed in range(200):
        at = At(announced_length=120, generator=torch.Generator().manual_seed(seed))
        ids = encoding.positions(torch.full((1, 120), 4), at)  # nothing but digits
        assert ids.max() < len(encoding.table)
    assert encoding.positions(random_tokens(3, 50), at).shape == (3, 50)
