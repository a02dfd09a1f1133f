"""Encodings that choose position ids: the authors' numbers, the laws of random draws, every row of a test trained."""

from collections import Counter
from dataclasses import replace
from itertools import count

import pytest
import torch
from golden import HEAD_WIDTH, HEADS, Pass, load
from helpers import assert_same, attention, context, make_encoding, oracle, perturbed, qkv, setup_of, spec_of
from torch import Tensor

import tasks
from bench.encodings import At, Encoding
from bench.encodings.alibi import slopes
from bench.encodings.randomised import ENTRIES
from bench.plugins.registry import get_encoding
from tasks import Vocabulary


def at_start(tokens: Tensor, seed: int = 0) -> At:
    return At(announced_length=tokens.shape[1], generator=torch.Generator().manual_seed(seed))


def encoded(vocabulary: Vocabulary, texts: list[str]) -> Tensor:
    """Texts as rows of tokens, padded to the longest."""
    rows = [[vocabulary.ids[symbol] for symbol in text.split()] for text in texts]
    return torch.tensor([row + [tasks.PAD] * (max(map(len, rows)) - len(row)) for row in rows])


# --- abacus

ABACUS_WORDS = Vocabulary.of(digit="0123456789", operator="+=", carry=("c0", "c1"), symbol="abc")


def seed_that_draws(value: int, low: int, high: int) -> int:
    """A seed whose first number of low … high is ``value``."""
    return next(n for n in count() if torch.randint(low, high + 1, (), generator=torch.Generator().manual_seed(n)) == value)


@oracle("abacus", against="mcleish7/arithmetic, golden numbers")
@pytest.mark.parametrize(("name", "largest"), [("abacus", 99), ("abacus(offset=29)", 29)])
def test_abacus_ids_equal_the_authors(name, largest):
    golden = load("abacus")
    assert golden["setting"]["max_k"] == 99
    encoding = get_encoding(name).make(setup_of(spec_of(), 25, 100, ABACUS_WORDS, lengths=(6, 30)))
    for case in golden["outputs"]["cases"]:
        tokens = encoded(ABACUS_WORDS, [case["tokens"]])
        assert encoding.eval().positions(tokens, at_start(tokens)).tolist() == [case["ids"]]
        drawn = encoding.train().positions(tokens, at_start(tokens, seed_that_draws(7, 0, largest)))
        assert drawn.tolist() == [case["ids_in_training_with_k_7"]]


# --- position coupling

COUPLED = [
    ("addition", "reversed", "addition", "reversed"),
    ("copying", "unique", "copy", "published"),
    ("parity", "answer", "parity", "published"),
    ("parity", "scratchpad", "parity", "scratchpad"),
]


def made_for(task: tasks.Task, name: str, train_length: int) -> Encoding:
    """An encoding for a task, in training."""
    lengths = train_length, task.longest
    return get_encoding(name).make(setup_of(spec_of(), *map(task.tokens, lengths), task.vocabulary, lengths)).train()


def coupled_case(task: str, variant: str, group: str, name: str) -> tuple[Encoding, Tensor, dict[int, Tensor]]:
    """The encoding for a task, the texts of a golden group as tokens, and their ids by start."""
    generator = tasks.get(task, variant, 24)
    encoding = made_for(generator, "position_coupling", 10)
    cases = load("position_coupling")["outputs"][group][name]["cases"]
    ids = {start: [c["ids"] for c in cases if c["start"] == start] for start in {c["start"] for c in cases}}
    texts = [c["tokens"].replace("=", "<sep>") for c in cases if c["start"] == 1]
    if task == "copying":  # the authors copy digits
        texts = [" ".join(f"s{word}" if word.isdigit() else word for word in text.split()) for text in texts]
    tokens = encoded(generator.vocabulary, texts)
    padded = {start: torch.tensor([r + [0] * (tokens.shape[1] - len(r)) for r in rows]) for start, rows in ids.items()}
    return encoding, tokens, padded


@oracle("position_coupling", against="HanseulJo/position-coupling, golden numbers")
@pytest.mark.parametrize("case", COUPLED, ids=lambda case: f"{case[0]}-{case[1]}")
def test_position_coupling_ids_equal_the_authors(case):
    encoding, tokens, expected = coupled_case(*case)
    assert torch.equal(encoding.eval().positions(tokens, at_start(tokens)), expected[1])
    encoding.train()
    drawn = torch.stack([encoding.positions(tokens, at_start(tokens, seed)) for seed in range(200)])
    starts = drawn[:, :, 1] - expected[1][:, 1] + 1
    first = expected[1] > 0
    assert torch.equal(drawn, (expected[1] + starts[..., None] - 1) * first)
    for start, ids in expected.items():
        for row, wanted in enumerate(ids):
            found = drawn[starts[:, row] == start, row]
            assert len(found) and (found == wanted).all()
    assert (starts != starts[:, :1]).any(1).all(), "one start per sequence"
    assert set(starts.flatten().tolist()) == set(range(1, 24 + 3)), "all starts up to L′ + 2"


def test_position_coupling_of_a_scratchpad_by_hand():
    task = tasks.get("addition", "scratchpad", 4)
    text = "<bos> 3 0 9 + 8 2 9 7 <sep> 1 c1 3 c0 8 c1 8 c0 = 1 3 8 8 <eos> <pad> <pad>"
    expected = [0, 2, 3, 4, 1, 2, 3, 4, 5, 1, 2, 2, 3, 3, 4, 4, 5, 5, 1, 2, 3, 4, 5, 0, 0, 0]
    encoding = made_for(task, "position_coupling", 4).eval()
    assert encoding.positions(encoded(task.vocabulary, [text]), At(26)).tolist() == [expected]


@pytest.mark.parametrize("variant", ["repeat", "unique"])
def test_position_coupling_numbers_the_tokens_of_sorting(variant):
    task = tasks.get("sorting", variant, 20)
    tokens = torch.from_numpy(task.test_examples(5, 30, 0).tokens)
    ids = made_for(task, "position_coupling", 5).eval().positions(tokens, at_start(tokens))
    inside = (tokens != tasks.PAD) & (tokens != tasks.BOS) & (tokens != tasks.EOS)
    assert torch.equal(ids, (torch.arange(tokens.shape[1]) + 1) * inside), "no rule of the authors: nothing is coupled"


# --- tables


@pytest.mark.parametrize(
    ("name", "task", "variant"),
    [
        ("abacus(offset=29)", "addition", "reversed"),
        ("position_coupling", "addition", "reversed"),
        ("position_coupling", "parity", "scratchpad"),
        ("learned_offset", "copying", "repeat"),
    ],
)
def test_every_row_of_a_test_is_trained(name, task, variant):
    task = tasks.get(task, variant, 20)
    encoding, drawn = made_for(task, name, 4), Counter()
    for step in range(200):
        tokens = torch.from_numpy(tasks.train_batch(task, 4, 30, 0, step).tokens)
        drawn.update(
            encoding.positions(tokens, At(task.tokens(4), generator=torch.Generator().manual_seed(step))).flatten().tolist()
        )
    tokens = torch.from_numpy(task.test_examples(20, 30, 0).tokens)
    used = encoding.eval().positions(tokens, At(task.tokens(20))).unique().tolist()
    assert min(drawn[row] for row in used) > 30
    assert max(drawn) < len(encoding.table)


def test_offsets_of_learned_offset_are_uniform_and_depend_only_on_the_announced_length():
    encoding = make_encoding("learned_offset", 1, train_tokens=12, longest_tokens=120).train()

    def ids(rows: int, length: int, announced_length: int) -> Tensor:
        at = At(announced_length, generator=torch.Generator().manual_seed(0))
        return encoding.positions(torch.zeros(rows, length, dtype=torch.long), at)

    counts = torch.bincount(ids(20_000, 12, 12)[:, 0])
    assert len(counts) == 121, "0 … L′, both ends included"
    expected = 20_000 / 121
    assert ((counts - expected).square() / expected).sum() < 1.5 * 120  # χ² of as many degrees of freedom
    assert torch.equal(ids(50, 9, 40), ids(50, 40, 40)[:, :9])
    assert torch.equal(ids(5, 3, 141), torch.arange(3).expand(5, -1))


# --- randomised


def given_draws(monkeypatch: pytest.MonkeyPatch, drawn: list[int], low: int) -> None:
    """Let the next permutations begin with the given draws, which are from ``low`` on."""

    def randperm(n: int, **_: object) -> Tensor:
        return torch.tensor([d - low for d in drawn] + [m for m in range(n) if m + low not in drawn])

    monkeypatch.setattr(torch, "randperm", randperm)


def drawn(encoding: Encoding, length: int, seed: int = 0) -> list[At]:
    """The contexts of the wrapped encoding in two layers."""
    at = At(length, generator=torch.Generator().manual_seed(seed))
    at = replace(at, ids=encoding.positions(torch.zeros(1, length, dtype=torch.long), at))
    at = replace(at, shared=encoding.prepare(at))
    return [encoding.inner_at(replace(at, layer=layer)) for layer in range(2)]


@pytest.mark.parametrize("name", ["learned", "sinusoidal", "rope", "fire"])
def test_randomised_ids_of_given_draws_equal_the_authors(name, monkeypatch):
    for case in load("randomised")["outputs"]["ids_for_given_draws"]:
        length = len(case["drawn"])
        encoding = make_encoding(f"randomised({name},longest={case['longest']})", 3, train_tokens=2, longest_tokens=length)
        given_draws(monkeypatch, case["drawn"], 0)
        assert [at.positions.tolist() for at in drawn(encoding, length)] == 2 * [case["ids"]]


def test_randomised_alibi_of_given_draws_equals_the_authors(monkeypatch):
    for case in load("randomised")["outputs"]["alibi_for_given_draws"]:
        given_draws(monkeypatch, case["drawn_distances"], 1)
        size = f"longest={case['longest']}"
        encoding = make_encoding(f"randomised(alibi,{size})", HEADS, HEAD_WIDTH, train_tokens=2, longest_tokens=case["tokens"])
        ours = Pass(encoding, {}, case["tokens"])
        for head, (slope, rows) in enumerate(zip(slopes(HEADS), case["bias_to_earlier_keys"], strict=True)):
            for i, row in enumerate(rows):
                # The authors' models are encoders, and shift the bias of earlier keys by half a token.
                shifted = [bias - slope / 2 * (j < i) for j, bias in enumerate(row)]
                assert ours.bias[head, i, : i + 1].tolist() == pytest.approx(shifted, abs=1e-6)


def rank_counts(sets: Tensor, numbers: list[int]) -> Tensor:
    """How often each number is at each rank."""
    low, high = numbers
    return torch.stack([torch.bincount(column - low, minlength=high - low + 1) for column in sets.T])


@oracle(*ENTRIES, against="golden/randomised: ids and biases of given draws, and the law of the draws")
@pytest.mark.parametrize("law", ["law_of_ids", "law_of_distances"])
def test_randomised_draws_follow_the_law_of_the_authors(law):
    for case in load("randomised")["outputs"][law]:
        size, draws = case["size"], 2000
        longest, tokens = case["numbers"][1] + 1, size + (law == "law_of_distances")
        encoding = make_encoding(f"randomised(t5,longest={longest})", 3, train_tokens=1, longest_tokens=tokens)
        contexts = (drawn(encoding, tokens, seed)[1] for seed in range(draws))
        found = [at.positions if law == "law_of_ids" else at.distances[-1, :-1].flip(0) for at in contexts]
        p = torch.tensor(case["count_at_rank_by_number"]) / case["subsets"]
        often = rank_counts(torch.stack(found), case["numbers"]) / draws
        assert ((often - p).abs() <= 5 * (p * (1 - p) / draws).sqrt()).all()


@pytest.mark.parametrize(("tokens", "longest"), [(125, 512), (500, 2048), (23, 95)])
@pytest.mark.parametrize("name", ["learned", "rope", "alibi"])
def test_randomised_scaled_is_randomised_with_a_scaled_maximum(name, tokens, longest):
    scaled, plain = (
        make_encoding(text, 3, longest_tokens=tokens)
        for text in (f"randomised_scaled({name})", f"randomised({name},longest={longest})")
    )
    assert scaled.setup.longest_tokens == longest
    for ours, theirs in zip(drawn(scaled, 12), drawn(plain, 12), strict=True):
        assert torch.equal(ours.positions, theirs.positions) and torch.equal(ours.distances, theirs.distances)


@pytest.mark.parametrize("name", ENTRIES)
def test_randomised_is_the_wrapped_encoding_at_the_draws(name):
    encoding, (q, k, v) = perturbed(make_encoding(name, 3)), qkv(3, 30)
    for layer in (0, 1):
        at = context(encoding, 30, layer=layer)
        inner = encoding.inner_at(at)
        r = inner.distances[-1].flip(0).tolist()
        assert inner.distances.tolist() == [[r[i - j] if i >= j else -r[j - i] for j in range(30)] for i in range(30)]
        own = replace(at, ids=inner.positions, drawn_distances=inner.distances)
        own = replace(own, shared=encoding.base.prepare(own))
        assert_same(attention(encoding, q, k, v, at), attention(encoding.base, q, k, v, own), [q, k, v], atol=1e-12)
        assert torch.equal(encoding.embed(at.h, at), encoding.base.embed(at.h, own))


@pytest.mark.parametrize(
    ("name", "again"), [("learned", False), ("sinusoidal", False), ("rope", True), ("fire", True), ("alibi", True)]
)
def test_randomised_draws_again_in_every_layer_except_for_embeddings(name, again):
    first, second = drawn(make_encoding(f"randomised({name})", 3), 12)
    assert torch.equal(first.positions, second.positions) != again
    assert torch.equal(first.distances, second.distances) != again


# --- random floats, PoSE


@oracle("random_floats(rope)", "random_floats(alibi)", "random_floats(sinusoidal)", against="the law of the ids, as quoted")
def test_random_floats_are_uniform_in_training_and_even_in_tests():
    encoding = make_encoding("random_floats(rope)", 2, longest_tokens=120)  # L = 12
    drawn = torch.stack([encoding.positions(torch.zeros(1, 12), at_start(torch.zeros(1, 12), n)) for n in range(2000)])
    assert (drawn.diff() > 0).all() and drawn.min() >= 0 and drawn.max() < 120
    ranks = torch.arange(1, 13) / 13  # means of the order statistics of 12 uniform numbers
    assert ((drawn.mean(0) / 120 - ranks).abs() < 5 * (ranks * (1 - ranks) / 14 / 2000).sqrt()).all()
    for length in (5, 12, 60):
        expected = [120 * (2 * i - 1) / (2 * max(12, length)) for i in range(1, length + 1)]
        assert encoding.eval().positions(torch.zeros(1, length), At(length)).tolist() == pytest.approx(expected)


@oracle("pose(rope)", against="golden/pose")
@pytest.mark.parametrize("case", load("pose")["outputs"]["cases"], ids=lambda case: f"{case['tokens']} of {case['longest']}")
def test_pose_ids_of_given_draws_equal_the_authors(case, monkeypatch):
    draws, asked = [case["cut"], case["gap"]], []

    def randint(high: int, shape: tuple, **_: object) -> Tensor:
        asked.append(high)
        return torch.full(shape, draws[len(asked) - 1]["drawn"] - draws[len(asked) - 1]["low"])

    monkeypatch.setattr(torch, "randint", randint)
    pose = make_encoding("pose(rope)", 2, longest_tokens=case["longest"])
    ids = pose.positions(torch.zeros(1, case["tokens"]), At(case["tokens"]))
    assert ids.tolist() == case["ids"] and asked == [draw["high"] - draw["low"] + 1 for draw in draws]
    assert pose.eval().positions(torch.zeros(1, 9), At(9)).tolist() == list(range(9))
