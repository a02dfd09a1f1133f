"""One training step against a naive one, the recipe against torch's AdamW, the loss curve, and divergence."""

import math
from itertools import pairwise

import pytest
import torch
from helpers import recipe_of, task_model, tiny_model
from torch.nn import functional as F

import tasks
from bench.encodings.nope import NoPE
from bench.training import train as module
from bench.training.model import Decoder
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, forward_backward, learning_rate, train
from tasks import Examples

LENGTH = 5
TASK = tasks.get("copying", "repeat", 2 * LENGTH)


def batch_of(count: int = 8, seed: int = 0) -> Examples:
    return tasks.train_batch(TASK, LENGTH, count, seed, 0)


def gradients(model: Decoder) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def naive_loss(model: Decoder, examples: Examples) -> torch.Tensor:
    """Mean cross-entropy over all answer tokens, one unpadded example at a time."""
    losses = []
    for row, start, size in zip(examples.tokens, examples.answer_start, examples.sizes, strict=True):
        tokens = torch.from_numpy(row[:size])
        logits = model.logits(model(tokens[None], TASK.tokens(LENGTH))[0])
        losses.append(F.cross_entropy(logits[start - 1 : -1], tokens[start:], reduction="none"))
    return torch.cat(losses).mean()


# --- batch and loss


@pytest.mark.parametrize("name", ["nope", "learned", "t5", "rope"])
def test_loss_and_gradients_equal_those_of_unpadded_examples(name):
    model, examples = task_model(name, TASK, LENGTH), batch_of()
    assert len(set(examples.sizes)) > 2, "mixed lengths"
    loss = forward_backward(model, examples, TASK.tokens(LENGTH), torch.Generator())
    found = gradients(model)
    model.zero_grad()
    expected = naive_loss(model, examples)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for key, gradient in gradients(model).items():
        torch.testing.assert_close(found[key], gradient, atol=1e-5, rtol=1e-5, msg=key)


def test_training_announces_the_length_of_l_for_every_batch():
    announced = []

    class Spy(NoPE):
        def prepare(self, at):
            announced.append(at.announced_length)

    model, recipe = task_model(Spy, TASK, LENGTH), recipe_of(steps=2, batch=1)
    train(model, AdamW(model, recipe), TASK, LENGTH, recipe, 0, TrainingState())
    assert set(announced) == {TASK.tokens(LENGTH)}
    assert min(tasks.train_batch(TASK, LENGTH, 1, 0, step).sizes[0] for step in range(2)) < TASK.tokens(LENGTH)


# --- recipe


def test_learning_rate_warms_up_and_decays_to_zero():
    recipe = recipe_of(steps=100, warmup_steps=10, learning_rate=2.0)
    rates = [learning_rate(recipe, step) for step in range(100)]
    assert rates[:10] == pytest.approx([0.2 * n for n in range(1, 11)])
    assert rates[9] == rates[10] == 2.0
    assert rates[55] == pytest.approx(1.0), "half way down"
    assert rates[32] == pytest.approx(2 * math.cos(math.pi * 22 / 180) ** 2)
    assert all(a > b for a, b in pairwise(rates[10:]))
    assert 0 < rates[99] < 0.002
    assert learning_rate(recipe, 100) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["nope", "learned", "path_fox", "dape(kerple_log)"])
def test_only_the_matrices_of_the_model_decay(name):
    model = tiny_model(name)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    optimizer = AdamW(model, recipe_of(weight_decay=0.2))
    optimizer.update(torch.zeros(()), 0.5, 1.0)  # without gradients, so that weights change by decay only
    moved = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    matrices = {f"blocks.{n}.{part}.weight" for n in range(2) for part in ("qkv", "out", "up", "down")}
    assert moved == matrices | {"head.weight"}
    for key in moved:
        torch.testing.assert_close(model.get_parameter(key), before[key] * (1 - 0.5 * 0.2))


@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_no_update_where_loss_or_gradient_is_not_finite(broken):
    model = task_model("t5", TASK, LENGTH)
    optimizer = AdamW(model, recipe_of())

    def update(factor: float = 1.0, shown: float = 0.0) -> list[float]:
        optimizer.zero_grad()
        loss = naive_loss(model, batch_of())
        (loss * factor).backward()
        return optimizer.update(loss.detach() + shown, 0.5, 1.0).tolist()

    def everything() -> list[torch.Tensor]:
        return [tensor.detach().clone() for tensor in (*model.parameters(), *optimizer.moments().values())]

    first = naive_loss(model, batch_of()).item()
    assert update() == [pytest.approx(first), 0.0]
    before = everything()
    value, skipped = update(shown=math.nan) if broken == "loss" else update(factor=math.inf)
    assert skipped == 1.0 and math.isnan(value) == (broken == "loss")
    assert all(torch.equal(a, b) for a, b in zip(everything(), before, strict=True))
    assert update()[1] == 0.0
    assert not any(torch.equal(a, b) for a, b in zip(everything(), before, strict=True))


def test_loss_curve_contains_the_mean_of_each_logging_interval(monkeypatch):
    recipe = recipe_of(steps=45)
    model, values, calls, state = task_model("nope", TASK, LENGTH), [], [], TrainingState()

    def spy(*arguments):
        loss = forward_backward(*arguments)
        values.append(loss.item())
        return loss

    monkeypatch.setattr(module, "forward_backward", spy)
    train(model, AdamW(model, recipe), TASK, LENGTH, recipe, 0, state, lambda state: calls.append(state.step))
    assert [step for step, _ in state.loss] == [*range(2, 45, 2), 45]
    expected = [sum(values[n : n + 2]) / len(values[n : n + 2]) for n in range(0, 45, 2)]
    assert [loss for _, loss in state.loss] == pytest.approx(expected)
    assert (state.loss_sum, state.loss_steps) == (values[-1], 1), "a stage goes on from the last, shorter interval"
    assert len(state.step_ms) == 23
    assert state.loss[-1][1] < state.loss[0][1], "the model learns"
    assert calls == list(range(1, 46)), "after_step is called after every step"


# --- divergence


def test_a_non_finite_loss_ends_the_run():
    recipe = recipe_of(steps=30, learning_rate=1e30)
    model, state, calls = task_model("nope", TASK, LENGTH), TrainingState(), []

    def train_on() -> None:
        optimizer = AdamW(model, recipe)
        train(model, optimizer, TASK, LENGTH, recipe, 0, state, lambda state: calls.append((state.step, state.diverged)))

    train_on()
    assert state.diverged and 0 < state.step < 30
    assert calls == [*((step, False) for step in range(1, state.step + 1)), (state.step, True)]
    assert all(math.isfinite(loss) for _, loss in state.loss)
    train_on()
    assert len(calls) == state.step + 1, "a diverged run takes no more steps"
