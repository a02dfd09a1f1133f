"""Encodings that choose position ids, and sinusoids, against the numbers of the authors' code; see ``golden.py``."""

import math
from dataclasses import replace
from itertools import count

import pytest
import torch
from golden import HEAD_WIDTH, HEADS, LAYER, Pass, load
from helpers import make_encoding, oracle, setup_of, spec_of
from torch import Tensor

import tasks
from bench.encodings import At, Encoding
from bench.encodings.alibi import slopes
from bench.encodings.sinusoidal import sinusoids
from bench.plugins.registry import get_encoding
from tasks import Vocabulary


def context(tokens: Tensor, seed: int = 0) -> At:
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


@oracle("abacus", "abacus_scaled", against="mcleish7/arithmetic, golden numbers")
@pytest.mark.parametrize(("name", "largest"), [("abacus", 99), ("abacus_scaled", 29)])
def test_abacus_ids_equal_the_authors(name, largest):
    golden = load("abacus")
    assert golden["setting"]["max_k"] == 99
    encoding = get_encoding(name).make(setup_of(spec_of(), 25, 100, ABACUS_WORDS, lengths=(6, 30)))
    for case in golden["outputs"]["cases"]:
        tokens = encoded(ABACUS_WORDS, [case["tokens"]])
        assert encoding.eval().positions(tokens, context(tokens)).tolist() == [case["ids"]]
        drawn = encoding.train().positions(tokens, context(tokens, seed_that_draws(7, 0, largest)))
        assert drawn.tolist() == [case["ids_in_training_with_k_7"]]


# --- position coupling

COUPLED = [
    ("addition", "reversed", "addition", "reversed"),
    ("copying", "unique", "copy", "published"),
    ("parity", "answer", "parity", "published"),
    ("parity", "scratchpad", "parity", "scratchpad"),
]


def coupled_case(task: str, variant: str, group: str, name: str) -> tuple[Encoding, Tensor, dict[int, Tensor]]:
    """The encoding for a task, the texts of a golden group as tokens, and their ids by start."""
    generator = tasks.get(task, variant, 24)
    lengths = 10, 24
    encoding = get_encoding("position_coupling").make(
        setup_of(spec_of(), *map(generator.tokens, lengths), generator.vocabulary, lengths)
    )
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
    assert torch.equal(encoding.eval().positions(tokens, context(tokens)), expected[1])
    encoding.train()
    drawn = torch.stack([encoding.positions(tokens, context(tokens, seed)) for seed in range(200)])
    starts = drawn[:, :, 1] - expected[1][:, 1] + 1
    first = expected[1] > 0
    assert torch.equal(drawn, (expected[1] + starts[..., None] - 1) * first)
    for start, ids in expected.items():
        for row, wanted in enumerate(ids):
            found = drawn[starts[:, row] == start, row]
            assert len(found) and (found == wanted).all()
    assert (starts != starts[:, :1]).any(1).all(), "one start per sequence"
    assert set(starts.flatten().tolist()) == set(range(1, 24 + 3)), "all starts up to L′ + 2"


# --- randomised


def given_draws(monkeypatch: pytest.MonkeyPatch, drawn: list[int], low: int) -> None:
    """Let the next permutations begin with the given draws, which are from ``low`` on."""

    def randperm(n: int, **_: object) -> Tensor:
        return torch.tensor([d - low for d in drawn] + [m for m in range(n) if m + low not in drawn])

    monkeypatch.setattr(torch, "randperm", randperm)


@oracle("randomised(learned)", "randomised(sinusoidal)", "randomised(rope)", "randomised(fire)",
        against="google-deepmind/randomized_positional_encodings, golden numbers: ids of given draws")  # fmt: skip
@pytest.mark.parametrize("name", ["learned", "sinusoidal", "rope", "fire"])
def test_randomised_ids_of_given_draws_equal_the_authors(name, monkeypatch):
    for case in load("randomised")["outputs"]["ids_for_given_draws"]:
        length = len(case["drawn"])
        encoding = make_encoding(f"randomised({name},longest={case['longest']})", 3, train_tokens=2, longest_tokens=length)
        given_draws(monkeypatch, case["drawn"], 0)
        at = context(torch.zeros(1, length))
        at = replace(at, ids=encoding.positions(torch.zeros(1, length, dtype=torch.long), at))
        at = replace(at, shared=encoding.prepare(at))
        for layer in range(2):
            assert encoding.inner_at(replace(at, layer=layer)).positions.tolist() == case["ids"]


@oracle("randomised(alibi)", against="google-deepmind/randomized_positional_encodings, golden numbers: biases of given draws")
def test_randomised_alibi_of_given_draws_equals_the_authors(monkeypatch):
    for case in load("randomised")["outputs"]["alibi_for_given_draws"]:
        given_draws(monkeypatch, case["drawn_distances"], 1)
        size = f"longest={case['longest']}"
        encoding = make_encoding(f"randomised(alibi,{size})", HEADS, HEAD_WIDTH, train_tokens=2, longest_tokens=case["tokens"])
        ours = Pass(encoding, {}, case["tokens"])
        assert ours.at.layer == LAYER > 0
        for head, (slope, rows) in enumerate(zip(slopes(HEADS), case["bias_to_earlier_keys"], strict=True)):
            for i, row in enumerate(rows):
                # The authors' models are encoders, and shift the bias of earlier keys by half a token.
                shifted = [bias - slope / 2 * (j < i) for j, bias in enumerate(row)]
                assert ours.bias[head, i, : i + 1].tolist() == pytest.approx(shifted, abs=1e-6)


def rank_counts(sets: Tensor, numbers: list[int]) -> Tensor:
    """How often each number is at each rank."""
    low, high = numbers
    return torch.stack([torch.bincount(column - low, minlength=high - low + 1) for column in sets.T])


@oracle("randomised(t5)", against="google-deepmind/randomized_positional_encodings, golden numbers: law of the draws")
@pytest.mark.parametrize("law", ["law_of_ids", "law_of_distances"])
def test_randomised_draws_follow_the_law_of_the_authors(law):
    for case in load("randomised")["outputs"][law]:
        size, draws = case["size"], 4000
        longest, tokens = case["numbers"][1] + 1, size + (law == "law_of_distances")
        encoding = make_encoding(f"randomised(t5,longest={longest})", 3, train_tokens=1, longest_tokens=tokens)
        found = []
        for seed in range(draws):
            at = context(torch.zeros(1, tokens), seed)
            at = replace(at, ids=encoding.positions(torch.zeros(1, tokens, dtype=torch.long), at))
            inner = encoding.inner_at(replace(at, shared=encoding.prepare(at), layer=1))
            found.append(inner.positions if law == "law_of_ids" else inner.distances[-1, :-1].flip(0))
        p = torch.tensor(case["count_at_rank_by_number"]) / case["subsets"]
        often = rank_counts(torch.stack(found), case["numbers"]) / draws
        assert ((often - p).abs() <= 5 * (p * (1 - p) / draws).sqrt()).all()


@oracle("randomised_scaled(learned)", "randomised_scaled(rope)", "randomised_scaled(alibi)",
        against="`randomised` with the same Lmax, whose draws equal the authors'")  # fmt: skip
@pytest.mark.parametrize(("tokens", "longest"), [(125, 512), (500, 2048), (23, 95)])
@pytest.mark.parametrize("name", ["learned", "rope", "alibi"])
def test_randomised_scaled_is_randomised_with_a_scaled_maximum(name, tokens, longest):
    scaled, plain = (make_encoding(text, 3, train_tokens=12, longest_tokens=tokens)
                     for text in (f"randomised_scaled({name})", f"randomised({name},longest={longest})"))  # fmt: skip
    plain.load_state_dict(scaled.state_dict())
    found = []
    for encoding in (scaled, plain):
        at = context(torch.zeros(1, 12), 3)
        at = replace(at, ids=encoding.positions(torch.zeros(1, 12, dtype=torch.long), at))
        inner = encoding.inner_at(replace(at, shared=encoding.prepare(at), layer=1))
        found.append((inner.positions, inner.distances))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*found, strict=True))
    assert scaled.setup.longest_tokens == longest


# --- sinusoidal


@oracle("sinusoidal", against="kimiyoung/transformer-xl, golden numbers")
def test_sinusoids_equal_those_of_transformer_xl():
    golden = load("sinusoidal")
    ours = sinusoids(torch.tensor(golden["positions"]), golden["setting"]["width"])
    theirs = torch.tensor(golden["outputs"]["pe"])  # all sines, then all cosines
    torch.testing.assert_close(torch.cat([ours[:, 0::2], ours[:, 1::2]], 1), theirs, atol=1e-6, rtol=0)
    assert math.isclose(ours[1, 1].item(), math.cos(1), abs_tol=1e-6)
