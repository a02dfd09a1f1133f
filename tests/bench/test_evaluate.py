"""Evaluation: one teacher-forced pass against real greedy decoding, counts, and batches cut by a budget of tokens."""

import math
from types import SimpleNamespace

import pytest
import torch
from helpers import NAMES, recipe_of, task_model, tiny_model
from torch import Tensor
from torch.nn import functional as F

import tasks
from bench import evaluate as module
from bench.batches import Batch, as_batch
from bench.encodings.nope import NoPE
from bench.evaluate import by_budget, correct, evaluate, zero_scores
from bench.model import Decoder
from bench.optimizer import FlatAdamW
from bench.train import State, train
from tasks import EOS, SEP

TASK = tasks.get("copying", "repeat", 8)
TEST = {n: tasks.test_set(TASK, n, 24, 0) for n in (2, 5, 8)}
LENGTH = 4
"""L of the models that are not trained."""

SORTING = tasks.get("sorting", "unique", 12)
SORTED = {n: tasks.test_set(SORTING, n, 24, 0) for n in (2, 4, 6, 7, 8, 12)}
SORTING_LENGTH = 6


@pytest.fixture(scope="module", params=["nope", "alibi", "rope", "learned", "sinusoidal", "t5"])
def trained(request) -> Decoder:
    """A model that has half learned to sort: right on some examples and wrong on others, at many lengths."""
    recipe = recipe_of(steps=160, batch=32, learning_rate=5e-3, warmup_steps=20)
    model = task_model(request.param, SORTING, SORTING_LENGTH, heads=4)
    train(model, FlatAdamW(model, recipe), SORTING, SORTING_LENGTH, recipe, 0, State())
    return model.eval()


@torch.inference_mode()
def decode(model: Decoder, prompt: list[int], nominal: int) -> list[int]:
    """Greedy decoding as in use: one example, one token at a time, no answer in sight, until <eos> or the announced length."""
    tokens = list(prompt)
    while len(tokens) < nominal and tokens[-1] != EOS:
        tokens.append(int(model.logits(model(torch.tensor([tokens]), nominal)[0, -1]).argmax()))
    return tokens[len(prompt) :]


def test_teacher_forcing_gives_the_exact_match_of_greedy_decoding(trained):
    partial = []
    for score in evaluate(trained, SORTING, SORTED, 0):
        examples, nominal = SORTED[score.length], SORTING.tokens(score.length)
        batch = as_batch(examples)
        with torch.inference_mode():
            hits = correct(trained, batch, nominal, None)
        matches = 0
        for row, (tokens, start, size) in enumerate(zip(examples.tokens, examples.answer_start, examples.sizes, strict=True)):
            match = decode(trained, tokens[:start].tolist(), nominal) == tokens[start:size].tolist()
            assert bool(hits[batch.owner == row].all()) == match
            matches += match
        assert score.exact == matches / len(examples)
        if 0 < matches < len(examples):
            partial.append(score.length)
    # Only where some examples are right and some are wrong can the two ways differ unnoticed.
    assert partial[0] <= SORTING_LENGTH < partial[-1], "both within and past the lengths of training"


# One that draws does so anew for each batch.
@pytest.mark.parametrize("name", NAMES)
def test_scores_do_not_hang_on_the_budget(name, monkeypatch):
    model = task_model(name, TASK, LENGTH)
    with torch.no_grad():  # an untrained model is right once in a while, as its scores must show
        model.embedding.weight.copy_(model.head.weight * 5)
    mixed = {TASK.longest: tasks.train_batch(TASK, TASK.longest, 70, 0, 0)}
    found = []
    for budget in (1, 20, 60, 8192, 10**9):
        monkeypatch.setattr(module, "TOKEN_BUDGET", {"cpu": budget})
        found.append(evaluate(model, TASK, TEST | mixed, 0))
    assert all(scores == found[0] for scores in found)
    assert any(0 < score.token < 1 for score in found[0])


@pytest.mark.parametrize("budget", [1, 11, 12, 13, 40, 100, 10**6])
def test_a_batch_never_holds_more_tokens_than_the_budget(budget, monkeypatch):
    monkeypatch.setattr(module, "TOKEN_BUDGET", {"cpu": budget})
    examples = tasks.train_batch(TASK, 8, 50, 0, 0)
    shapes = []
    model = tiny_model("nope")
    real = model.read
    monkeypatch.setattr(model, "read", lambda batch, *rest: (shapes.append(batch.layout.shapes), real(batch, *rest))[1])
    evaluate(model, TASK, {8: examples}, 0)
    assert all(len(one) == 1 for one in shapes), "one rectangle: an encoding that draws does so once a batch"
    shapes = [one[0] for one in shapes]
    assert sum(rows for rows, _ in shapes) == 50
    widest = examples.tokens.shape[1]
    for rows, width in shapes:
        assert rows * width <= budget or rows == 1
        assert width <= widest
    assert all(rows == max(1, min(50, budget // widest)) for rows, _ in shapes[:-1]), "nor needlessly few"


def test_batches_hold_every_example_once_and_in_order():
    examples = tasks.train_batch(TASK, 8, 50, 0, 0)
    batches = [batch for _, batch in by_budget(examples, 100, len(examples))]
    rows = [row[row != tasks.PAD].tolist() for batch in batches for part in batch.tokens for row in part]
    expected = [row[row != tasks.PAD].tolist() for row in examples.tokens]
    size = batches[0].count
    for start in range(0, len(expected), size):  # in order, but for sizes within a batch
        assert sorted(rows[start : start + size]) == sorted(expected[start : start + size])
    assert sum(len(batch.targets) for batch in batches) == examples.targets.sum()


# --- models whose answers are known


class Answers:
    """In place of a model: gives the token that follows, but another where ``wrong`` says so."""

    def __init__(self, wrong=lambda tokens: torch.zeros(tokens.shape, dtype=torch.bool)):
        self.wrong = wrong
        self.embedding = SimpleNamespace(weight=torch.zeros(1))
        self.encoding = SimpleNamespace(info=SimpleNamespace(random=False), stage=None)
        self.calls: list[tuple[int, int]] = []
        self.training = True

    def eval(self) -> None:
        self.training = False

    def read(self, batch: Batch, nominal: int, generator: torch.Generator) -> Tensor:
        assert not self.training
        self.calls.append((nominal, generator.initial_seed()))
        (tokens,) = batch.tokens
        following = tokens.roll(-1, 1)
        size = len(TASK.vocabulary)
        cells = F.one_hot((following + self.wrong(tokens)) % size, size).float().flatten(0, 1)
        return (cells if batch.layout.cell_of is None else cells[batch.layout.cell_of])[batch.places]

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden


ASKED = {n: tasks.test_set(TASK, n, 10, 0) for n in (1, 3, 8)}


def nth_of_answer(n: int):
    """Wrong at the n-th target of each row: that of place <sep> + n."""

    def wrong(tokens: Tensor) -> Tensor:
        sep = (tokens == SEP).int().argmax(1, keepdim=True)
        return torch.arange(tokens.shape[1]) == sep + n

    return wrong


@pytest.mark.parametrize(
    ("wrong", "exact", "missed"),
    [
        (lambda tokens: tokens < 0, 1.0, lambda n: 0),
        (lambda tokens: tokens >= 0, 0.0, lambda n: n + 1),
        (nth_of_answer(0), 0.0, lambda n: 1),
        (nth_of_answer(1), 0.0, lambda n: 1),
        (nth_of_answer(-1), 1.0, lambda n: 0),
    ],
    ids=["always right", "always wrong", "first token wrong", "second token wrong", "prompt wrong"],
)
def test_known_answers_give_known_scores(wrong, exact, missed):
    for score, (n, examples) in zip(evaluate(Answers(wrong), TASK, ASKED, 0), ASKED.items(), strict=True):
        assert (score.length, score.count, score.tokens) == (n, 10, 10 * (n + 1)), "the answer and <eos>"
        assert score.exact == exact
        assert score.token == pytest.approx(1 - missed(n) / (n + 1))
        assert score.chance == TASK.chance(n) == pytest.approx(8.0**-n)
        assert len(examples) == 10


def test_a_missing_end_is_a_failure_and_what_comes_after_it_is_not():
    at_end = Answers(lambda tokens: tokens.roll(-1, 1) == EOS)
    assert [score.exact for score in evaluate(at_end, TASK, ASKED, 0)] == [0, 0, 0]
    behind = Answers(lambda tokens: (tokens == EOS) | (tokens == tasks.PAD))
    mixed = {7: tasks.train_batch(TASK, 7, 30, 0, 0)}
    assert [score.exact for score in evaluate(behind, TASK, ASKED | mixed, 0)] == [1, 1, 1, 1]


def test_each_example_counts_once(monkeypatch):
    monkeypatch.setattr(module, "TOKEN_BUDGET", {"cpu": 40})  # several batches a length
    examples = ASKED[8]
    chosen = {tuple(examples.tokens[row]) for row in (2, 3, 7)}
    wrong = Answers(lambda tokens: torch.tensor([[tuple(row) in chosen] for row in tokens.tolist()]) & nth_of_answer(2)(tokens))
    (score,) = evaluate(wrong, TASK, {8: examples}, 0)
    assert score.exact == 0.7
    assert score.token == pytest.approx(1 - 3 / 90)


def test_the_model_is_told_the_announced_length_and_draws_that_hang_on_the_test_alone(monkeypatch):
    monkeypatch.setattr(module, "TOKEN_BUDGET", {"cpu": 60})
    asked = {3: ASKED[3], 8: ASKED[1]}  # at 8, every sequence is shorter than it may be
    first, again, other = Answers(), Answers(), Answers()
    for model, seed in ((first, 0), (again, 0), (other, 1)):
        evaluate(model, TASK, asked, seed)
    sizes = {n: math.ceil(10 / (60 // examples.tokens.shape[1])) for n, examples in asked.items()}
    assert [nominal for nominal, _ in first.calls] == [TASK.tokens(n) for n in asked for _ in range(sizes[n])]
    assert first.calls == again.calls
    seeds = [seed for _, seed in first.calls]
    assert len(set(seeds)) == len(asked) < len(seeds), "a draw for each length and 32 examples, however they are batched"
    assert not set(seeds) & {seed for _, seed in other.calls}


def test_evaluation_asks_between_batches_and_may_be_stopped(monkeypatch):
    monkeypatch.setattr(module, "TOKEN_BUDGET", {"cpu": 60})
    asked = []
    model = Answers()
    evaluate(model, TASK, ASKED, 0, lambda: asked.append(None))
    assert len(asked) == len(model.calls)

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(model, TASK, ASKED, 0, stop)
    assert len(model.calls) == len(asked), "before the first batch"


def test_a_diverged_run_scores_zero_with_the_same_counts():
    found, counted = zero_scores(TASK, ASKED), evaluate(Answers(), TASK, ASKED, 0)
    assert [(s.exact, s.token) for s in found] == [(0, 0)] * 3
    keys = ("length", "count", "tokens", "chance")
    assert [[getattr(s, key) for key in keys] for s in found] == [[getattr(s, key) for key in keys] for s in counted]


@pytest.mark.parametrize("name", ["addition", "parity", "key_retrieval", "sorting"])
def test_every_task_is_counted_by_its_answers(name):
    task = tasks.get(name, longest=6)
    examples = tasks.test_set(task, 6, 12, 0)
    (score,) = evaluate(task_model("nope", task, 3), task, {6: examples}, 0)
    assert (score.count, score.tokens) == (12, int((examples.sizes - examples.answer_start).sum()))
    assert 0 <= score.exact <= score.token <= 1


def test_evaluation_leaves_weights_and_gradients_alone():
    model = task_model("t5", TASK, LENGTH)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    evaluate(model, TASK, ASKED, 0)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_a_model_whose_scores_are_not_numbers_is_never_right():
    class NotANumber(NoPE):
        def embed(self, x, at):
            return x * math.nan

    scores = evaluate(task_model(NotANumber, TASK, LENGTH), TASK, ASKED, 0)
    assert [(score.exact, score.token) for score in scores] == [(0, 0)] * 3
