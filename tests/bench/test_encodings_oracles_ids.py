"""Oracles of encodings that choose position ids: randomised, interpolated, abacus, position coupling."""

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from helpers import (
    ANNOUNCED_SHAPES,
    HEAD_WIDTH,
    assert_same,
    attention_at,
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
from bench.encodings import At, Encoding
from bench.encodings.randomised import ENTRIES
from bench.plugins.registry import get_encoding

# --- randomised

LENGTHS = (1, 12, 30, 120)


def are_randomised(ids: Iterable[int], longest: int) -> bool:
    """Whether ids are strictly increasing and within 0 … longest − 1."""
    row = [int(p) for p in ids]
    return all(a < b for a, b in pairwise(row)) and all(0 <= p < longest for p in row)


def drawn_ids(encoding: Encoding, length: int, announced_length: int, seed: int = 0) -> Tensor:
    return encoding.positions(
        torch.zeros(2, length, dtype=torch.long), At(announced_length, generator=torch.Generator().manual_seed(seed))
    )


def drawn_contexts(encoding: Encoding, length: int, announced_length: int, seed: int = 0) -> list[At]:
    """The context of a randomised encoding and that of the encoding it wraps, in both layers."""
    at = At(announced_length, generator=torch.Generator().manual_seed(seed))
    at = replace(at, ids=encoding.positions(torch.zeros(2, length, dtype=torch.long), at))
    at = replace(at, shared=encoding.prepare(at))
    return [replace(at, layer=layer) for layer in range(2)]


@oracle(*ENTRIES, against="the wrapped encoding at the ids and distances drawn")
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", ENTRIES)
def test_randomised_is_the_wrapped_encoding_at_the_draws(name, length):
    encoding = perturbed(make_encoding(name, 3))
    longest = encoding.setup.longest_tokens
    inputs, x = qkv(3, length), torch.randn(2, length, 24, dtype=torch.float64)
    for at in drawn_contexts(encoding, length, length):
        inner = encoding.inner_at(at)
        r = inner.distances[-1].flip(0).tolist()
        assert are_randomised(inner.positions, longest) and are_randomised(r, longest)
        assert inner.distances.tolist() == [[r[i - j] if i >= j else -r[j - i] for j in range(length)] for i in range(length)]
        own = replace(at, ids=inner.positions, drawn_distances=inner.distances, shared=None)
        own = replace(own, shared=encoding.base.prepare(own))
        expected = attention_at(encoding.base, *inputs, own)
        assert_same(attention_at(encoding, *inputs, at), expected, inputs if length > 1 else (), atol=1e-12)
        assert torch.equal(encoding.embed(x, at), encoding.base.embed(x, own))
        if "learned" in name and at.layer == 0:
            assert_same(encoding.embed(x, at), x + encoding.base.table[own.ids], atol=1e-12)


@pytest.mark.parametrize(("name", "again"), [("learned", False), ("sinusoidal", False), ("rope", True), ("fire", True)])
def test_randomised_draws_ids_again_in_every_layer_except_for_embeddings(name, again):
    first, second = drawn_contexts(encoding := make_encoding(f"randomised({name})", 3), 12, 12)
    assert torch.equal(encoding.inner_at(first).positions, first.positions)
    assert torch.equal(encoding.inner_at(second).positions, first.positions) != again


@pytest.mark.parametrize("name", ["alibi", "t5"])
def test_randomised_draws_distances_again_in_every_layer_and_not_as_differences_of_ids(name):
    encoding = make_encoding(f"randomised({name})", 3)
    first, second = (encoding.inner_at(at) for at in drawn_contexts(encoding, 12, 12))
    assert not torch.equal(first.distances, second.distances)
    for at in (first, second):
        assert (at.distances.diagonal(-3) == at.distances[3, 0]).all(), "the same for all queries"
        assert not torch.equal(at.distances, at.positions[:, None] - at.positions)


def test_randomised_fire_takes_its_distances_from_the_ids_that_normalise_them():
    encoding = make_encoding("randomised(fire)", 3)
    for at in drawn_contexts(encoding, 12, 12):
        own = replace(encoding.inner_at(at), drawn_distances=None)
        own = replace(own, shared=encoding.base.prepare(own))
        assert torch.equal(encoding.bias(None, None, at), encoding.base.bias(None, None, own))


def test_randomised_draws_for_the_announced_length_and_takes_the_first():
    encoding = make_encoding("randomised(rope)", 3)
    whole = [encoding.inner_at(at) for at in drawn_contexts(encoding, 40, 40)]
    for length in (1, 7, 39):
        for at, long in zip(drawn_contexts(encoding, length, 40), whole, strict=True):
            assert torch.equal(encoding.inner_at(at).positions, long.positions[:length])
            assert torch.equal(encoding.inner_at(at).distances, long.distances[:length, :length])
    assert not torch.equal(drawn_ids(encoding, 40, 40, seed=1), whole[0].positions)
    assert torch.equal(drawn_ids(encoding.eval(), 40, 40), whole[0].positions), "drawn in evaluation as in training"
    narrow = make_encoding("randomised(rope,longest=120)", 3)
    assert torch.equal(drawn_ids(narrow, 120, 120), torch.arange(120)), "at the longest length no id is left out"


def test_randomised_rejects_lengths_it_cannot_draw():
    encoding = make_encoding("randomised(rope,longest=120)", 3)
    with pytest.raises(ValueError, match="121"):
        drawn_ids(encoding, 5, 121)
    with pytest.raises(ValueError, match="sequence of 6"):
        drawn_ids(encoding, 6, 5)
    with pytest.raises(tasks.InputError, match="longest ≥ 120"):
        make_encoding("randomised(rope, longest=119)", 3)
    with pytest.raises(tasks.InputError, match="longest ≥ 2049"):
        make_encoding("randomised(rope)", 3, longest_tokens=2049)


def test_randomised_ids_go_up_to_lmax():
    for name, longest in (("randomised", 2048), ("randomised_scaled", 492)):  # 492 ≥ 120·2048/500 > 491
        encoding = make_encoding(f"{name}(learned)", 3)
        assert encoding.base.table.shape[0] == longest, "tables inside grow with it"
        ids = torch.cat([drawn_ids(encoding, 40, 40, seed) for seed in range(50)])
        assert 0.95 * longest < ids.max() < longest
    assert make_encoding("randomised_scaled(rope)", 3, longest_tokens=500).setup.longest_tokens == 2048
    assert make_encoding("randomised(t5)", 3).base.table.shape == (32, 3), "T5 has no row for each place"


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
    ("inner", "culprit"), [("learned", "learned"), ("randomised(rope)", "randomised(rope)"), ("t5(buckets=8)", "t5(buckets=8)")]
)
def test_encodings_with_tables_or_draws_cannot_be_interpolated(inner, culprit):
    with pytest.raises(tasks.InputError) as caught:
        get_encoding(f"interpolated({inner})")
    assert f"fractions, which {culprit} does not accept" in str(caught.value)
    assert "such as rope" in str(caught.value)


# --- abacus, position coupling: the ids are compared with the authors' in test_encodings_golden_ids.py


def task_ids(name: str, task: tasks.Task, trained: int, length: int, seed: int = 0, training: bool = True):
    """Tokens of 30 examples of 1 … ``length``, the ids that an encoding gives them, and the encoding."""
    examples = task.sample(np.arange(30) % length + 1, 30, np.random.default_rng(seed))
    lengths = trained, task.longest
    setup = setup_of(spec_of(), *map(task.tokens, lengths), task.vocabulary, lengths)
    encoding = get_encoding(name).make(setup).train(training)
    tokens = torch.from_numpy(examples.tokens)
    ids = encoding.positions(tokens, At(task.tokens(length), generator=torch.Generator().manual_seed(seed)))
    return tokens, ids, encoding


@pytest.mark.parametrize("name", ["abacus", "abacus_scaled", "position_coupling"])
def test_ids_are_looked_up_in_a_table(name):
    _, ids, encoding = task_ids(name, tasks.get("addition", "reversed", 20), 4, 6)
    encoding = encoding.double()
    assert encoding.table.std().item() == pytest.approx(1, abs=0.06)
    at = At(announced_length=ids.shape[1], ids=ids)
    x = torch.randn(*ids.shape, 24, dtype=torch.float64, requires_grad=True)
    expected = torch.stack([torch.stack([encoding.table[p] for p in row]) for row in ids.tolist()]) + x
    assert_same(encoding.embed(x, at), expected, [x, encoding.table], atol=1e-12)
    assert encoding.embed(x, replace(at, layer=1)) is x


@pytest.mark.parametrize(("name", "largest"), [("abacus(offset=9)", 9), ("abacus", 99), ("abacus_scaled", 19)])
def test_abacus_adds_one_offset_to_all_digits_only_in_training(name, largest):
    task, offsets = tasks.get("addition", "reversed", 20), set()
    _, plain, encoding = task_ids(name, task, 4, 6, training=False)
    assert encoding.table.shape[0] > task.longest + 1 + largest, "a row for every id"
    for seed in range(20 * largest):
        tokens = torch.from_numpy(task.sample(np.arange(30) % 6 + 1, 30, np.random.default_rng(0)).tokens)
        at = At(task.tokens(6), generator=torch.Generator().manual_seed(seed))
        ids = encoding.train().positions(tokens, at)
        offset = int(ids[0, 1]) - 1  # every row begins <bos> digit
        assert torch.equal(ids, plain + offset * (plain > 0))
        offsets.add(offset)
    assert offsets == set(range(largest + 1))


def test_abacus_scaled_trains_every_row_of_a_test_by_several_places():
    task = tasks.get("addition", "reversed", 20)
    seen = {row: set() for row in range(1, task.longest + 2)}
    for seed in range(300):
        _, ids, _ = task_ids("abacus_scaled", task, 4, 4, seed)
        for row, place in {(int(r), int(r - ids[0, 1] + 1)) for r in ids.unique() if r}:
            seen.get(row, set()).add(place)
    assert all(len(places) >= min(row, 4) for row, places in seen.items())


def test_abacus_has_only_zeros_without_digits():
    _, ids, _ = task_ids("abacus", tasks.get("copying", "repeat", 20), 5, 5)
    assert (ids == 0).all()


def test_position_coupling_of_a_scratchpad_by_hand():
    task = tasks.get("addition", "scratchpad", 4)
    setup = setup_of(spec_of(), task.tokens(4), task.tokens(4), task.vocabulary, (4, 4))
    encoding = get_encoding("position_coupling").make(setup).eval()
    text = "<bos> 3 0 9 + 8 2 9 7 <sep> 1 c1 3 c0 8 c1 8 c0 = 1 3 8 8 <eos> <pad> <pad>"
    expected = [0, 2, 3, 4, 1, 2, 3, 4, 5, 1, 2, 2, 3, 3, 4, 4, 5, 5, 1, 2, 3, 4, 5, 0, 0, 0]
    assert encoding.positions(torch.tensor([[task.vocabulary.ids[s] for s in text.split()]]), At(26)).tolist() == [expected]


@pytest.mark.parametrize("variant", ["repeat", "unique"])
def test_position_coupling_numbers_the_tokens_of_sorting(variant):
    task = tasks.get("sorting", variant, 20)
    tokens, ids, encoding = task_ids("position_coupling", task, 5, 5, training=False)
    inside = (tokens != tasks.PAD) & (tokens != tasks.BOS) & (tokens != tasks.EOS)
    assert torch.equal(ids, (torch.arange(tokens.shape[1]) + 1) * inside), "no rule of the authors: nothing is coupled"
    assert encoding.starts == task.tokens(20)


@pytest.mark.parametrize(
    ("name", "variant"), [("addition", "reversed"), ("copying", "repeat"), ("parity", "answer"), ("parity", "scratchpad")]
)
def test_position_coupling_trains_every_row_of_a_test_often(name, variant):
    task = tasks.get(name, variant, 20)
    _, tested, _ = task_ids("position_coupling", task, 4, 20, training=False)
    drawn = torch.cat([task_ids("position_coupling", task, 4, 4, seed)[1].flatten() for seed in range(100)])
    often = torch.bincount(drawn[drawn > 0], minlength=60)
    used = often[1 : tested.max() + 1]
    assert used[5:].numel() == 0 or used[5:].min() > 0.7 * used[5:].max(), "those past the first L by all places alike"
    assert used.min() > 30, "and the others by all places of a test"


def test_position_coupling_has_a_row_for_any_generated_text():
    encoding = make_encoding("position_coupling", 3).train()
    for seed in range(200):
        at = At(announced_length=120, generator=torch.Generator().manual_seed(seed))
        ids = encoding.positions(torch.full((1, 120), 4), at)  # nothing but digits
        assert ids.max() < len(encoding.table)
    assert encoding.positions(random_tokens(3, 50), at).shape == (3, 50)
