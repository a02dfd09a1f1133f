"""Evaluation: teacher forcing against real greedy decoding, counts, and batches bounded by a token budget."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import NAMES, recipe_of, task_model
from torch import Tensor
from torch.nn import functional as F

import tasks
from bench.encodings.nope import NoPE
from bench.training import evaluate as module
from bench.training.batches import Layout
from bench.training.evaluate import evaluate, zero_scores
from bench.training.model import Decoder
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, train
from tasks import EOS, SEP

TASK = tasks.get("copying", "repeat", 8)
TEST = {n: TASK.test_examples(n, 24, 0) for n in (2, 5, 8)}
LENGTH = 4
"""L of the untrained models."""

SORTING = tasks.get("sorting", "unique", 12)
SORTED = {n: SORTING.test_examples(n, 24, 0) for n in (2, 4, 6, 7, 8, 12)}
SORTING_LENGTH = 6


@pytest.fixture(scope="module", params=["nope", "rope", "learned", "t5"])
def trained(request) -> Decoder:
    """A model that sorts some examples correctly and others not, at many lengths."""
    recipe = recipe_of(steps=160, batch=32, learning_rate=5e-3, warmup_steps=20)
    model = task_model(request.param, SORTING, SORTING_LENGTH, heads=4)
    train(model, AdamW(model, recipe), SORTING, SORTING_LENGTH, recipe, 0, TrainingState())
    return model.eval()


@torch.inference_mode()
def decode(model: Decoder, prompt: list[int], announced_length: int) -> list[int]:
    """Greedy decoding of one prompt, token by token, until <eos> or the announced length."""
    tokens = list(prompt)
    while len(tokens) < announced_length and tokens[-1] != EOS:
        tokens.append(int(model.logits(model(torch.tensor([tokens]), announced_length)[0, -1]).argmax()))
    return tokens[len(prompt) :]


def test_scores_are_those_of_greedy_decoding_and_single_sequences(trained):
    partial = []
    for score in evaluate(trained, SORTING, SORTED, 0):
        examples, announced_length = SORTED[score.length], SORTING.tokens(score.length)
        matches, losses, first_wrong = 0, [], [0] * 10
        for tokens, start, size in zip(examples.tokens, examples.answer_start, examples.sizes, strict=True):
            answer = tokens[start:size].tolist()
            decoded = decode(trained, tokens[:start].tolist(), announced_length)
            wrong = [n for n, token in enumerate(answer) if decoded[n : n + 1] != [token]]
            if wrong:
                first_wrong[math.floor(wrong[0] / len(answer) * 10 + 1e-9)] += 1
            assert bool(wrong) == (decoded != answer)
            matches += not wrong
            with torch.inference_mode():
                logits = trained.logits(trained(torch.tensor(tokens[None, :size]), announced_length)[0, start - 1 : size - 1])
            losses += [float(F.cross_entropy(row.double(), torch.tensor(t))) for row, t in zip(logits, answer, strict=True)]
        assert score.exact == matches / len(examples)
        assert score.first_wrong == first_wrong
        assert score.nll == pytest.approx(sum(losses) / len(losses), rel=1e-4, abs=1e-5)
        if 0 < matches < len(examples):
            partial.append(score.length)
    # Only where some examples are right and others wrong would a difference show.
    assert partial[0] <= SORTING_LENGTH < partial[-1], "in distribution and out of distribution"


@pytest.mark.parametrize("name", NAMES)
def test_scores_do_not_depend_on_the_budget(name, monkeypatch):
    model = task_model(name, TASK, LENGTH)
    with torch.no_grad():  # so that an untrained model is right on some tokens
        model.embedding.weight.copy_(model.head.weight * 5)
    mixed = {TASK.longest: tasks.train_batch(TASK, TASK.longest, 70, 0, 0)}
    found = []
    for budget in (1, 60, 10**9):
        monkeypatch.setattr(module, "TOKEN_BUDGET", {"cpu": budget})
        found.append(evaluate(model, TASK, TEST | mixed, 0))
    exactly = [[score.model_dump(exclude={"nll"}) for score in scores] for scores in found]
    assert all(scores == exactly[0] for scores in exactly)
    assert np.ptp([[score.nll for score in scores] for scores in found], axis=0) == pytest.approx(0, abs=1e-5)
    assert any(0 < score.token < 1 for score in found[0])


# --- models with known answers


class KnownAnswers:
    """In place of a model: predicts the next token correctly, except where ``wrong`` is True."""

    def __init__(self, wrong=lambda tokens: torch.zeros(tokens.shape, dtype=torch.bool)):
        self.wrong = wrong
        self.embedding = SimpleNamespace(weight=torch.zeros(1))
        self.encoding = SimpleNamespace(info=SimpleNamespace(random=False), stage=None)
        self.calls: list[tuple[int, int]] = []
        self.training = True

    def eval(self) -> None:
        self.training = False

    def packed_states(
        self, tokens: Tensor, layout: Layout, announced_length: int, generator: torch.Generator, target_rows: Tensor
    ) -> Tensor:
        assert not self.training
        self.calls.append((announced_length, generator.initial_seed()))
        following = tokens.roll(-1, 1)
        size = len(TASK.vocabulary)
        cells = F.one_hot((following + self.wrong(tokens)) % size, size).float().flatten(0, 1)
        return (cells if layout.cell_of is None else cells[layout.cell_of])[target_rows]

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden


TEST_SETS = {n: TASK.test_examples(n, 10, 0) for n in (1, 3, 8)}


def nth_target(n: int):
    """Wrong at the n-th target of each sequence, the token after <sep> + n."""

    def wrong(tokens: Tensor) -> Tensor:
        sep = (tokens == SEP).int().argmax(1, keepdim=True)
        return torch.arange(tokens.shape[1]) == sep + n

    return wrong


@pytest.mark.parametrize(
    ("wrong", "exact", "missed", "tenths"),
    [
        (lambda tokens: tokens < 0, 1.0, lambda n: 0, None),
        (lambda tokens: tokens >= 0, 0.0, lambda n: n + 1, [0, 0, 0]),
        (nth_target(0), 0.0, lambda n: 1, [0, 0, 0]),
        (nth_target(1), 0.0, lambda n: 1, [5, 2, 1]),
        (nth_target(-1), 1.0, lambda n: 0, None),
    ],
    ids=["always right", "always wrong", "first token wrong", "second token wrong", "prompt wrong"],
)
def test_scores_of_known_answers(wrong, exact, missed, tenths):
    for k, (score, n) in enumerate(zip(evaluate(KnownAnswers(wrong), TASK, TEST_SETS, 0), TEST_SETS, strict=True)):
        count = min(10, 8**n)  # of one letter there are eight
        assert (score.length, score.count, score.tokens) == (n, count, count * (n + 1)), "the answer and <eos>"
        assert score.exact == exact
        assert score.token == pytest.approx(1 - missed(n) / (n + 1))
        assert score.chance == TASK.chance(n) == pytest.approx(8.0**-n)
        assert score.token_chance == TASK.token_chance(n) == pytest.approx((n / 8 + 1) / (n + 1))
        assert score.first_wrong == [count * (tenths is not None and place == tenths[k]) for place in range(10)]


def test_eos_counts_and_tokens_after_it_do_not():
    at_end = KnownAnswers(lambda tokens: tokens.roll(-1, 1) == EOS)
    assert [score.exact for score in evaluate(at_end, TASK, TEST_SETS, 0)] == [0, 0, 0]
    after_end = KnownAnswers(lambda tokens: (tokens == EOS) | (tokens == tasks.PAD))
    mixed = {7: tasks.train_batch(TASK, 7, 30, 0, 0)}
    assert [score.exact for score in evaluate(after_end, TASK, TEST_SETS | mixed, 0)] == [1, 1, 1, 1]


def test_announced_length_and_random_seeds_depend_only_on_the_test(monkeypatch):
    monkeypatch.setattr(module, "TOKEN_BUDGET", {"cpu": 60})
    test_sets = {3: TEST_SETS[3], 8: TEST_SETS[1]}  # at 8, every sequence is shorter than it may be
    first, second, other = KnownAnswers(), KnownAnswers(), KnownAnswers()
    for model, seed in ((first, 0), (second, 0), (other, 1)):
        evaluate(model, TASK, test_sets, seed)
    sizes = {n: math.ceil(10 / (60 // examples.tokens.shape[1])) for n, examples in test_sets.items()}
    assert [announced_length for announced_length, _ in first.calls] == [
        TASK.tokens(n) for n in test_sets for _ in range(sizes[n])
    ]
    assert first.calls == second.calls
    seeds = [seed for _, seed in first.calls]
    assert len(set(seeds)) == len(test_sets) < len(seeds), "one seed for each length and 32 examples, whatever the batches"
    assert not set(seeds) & {seed for _, seed in other.calls}


def test_zero_scores_have_the_same_counts():
    found, counted = zero_scores(TASK, TEST_SETS), evaluate(KnownAnswers(), TASK, TEST_SETS, 0)
    assert [(s.exact, s.token, s.nll, s.first_wrong) for s in found] == [(0, 0, None, [n] + [0] * 9) for n in (8, 10, 10)]
    keys = ("length", "count", "tokens", "chance", "token_chance")
    assert [[getattr(s, key) for key in keys] for s in found] == [[getattr(s, key) for key in keys] for s in counted]


def test_nan_logits_are_wrong():
    class NaN(NoPE):
        def embed(self, x, at):
            return x * math.nan

    scores = evaluate(task_model(NaN, TASK, LENGTH), TASK, TEST_SETS, 0)
    assert scores == zero_scores(TASK, TEST_SETS), "as in a diverged run"
