"""One step of training against a naive one, what carries loss, and runs that are stopped, damaged or diverge."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import NAMES, recipe_of, task_model, tiny_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tasks
from bench import batches
from bench import train as module
from bench.batches import as_batch
from bench.checkpoint import load_checkpoint, save_checkpoint
from bench.encodings.nope import NoPE
from bench.model import Decoder
from bench.optimizer import FlatAdamW
from bench.runs import CHECKPOINT
from bench.train import State, Stopped, backward, learning_rate, train
from tasks import EOS, Examples

LENGTH = 5
TASK = tasks.get("copying", "repeat", 2 * LENGTH)


def batch_of(count: int = 8, seed: int = 0, task: tasks.Task = TASK) -> Examples:
    return tasks.train_batch(task, LENGTH, count, seed, 0)


def gradients(model: Decoder) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters()}


# --- one step


def naive_loss(model: Decoder, examples: Examples, nominal: int) -> torch.Tensor:
    """Mean of −log p over all answer tokens, one example and one token at a time, without padding."""
    losses = []
    for row, start, size in zip(examples.tokens, examples.answer_start, examples.sizes, strict=True):
        tokens = torch.from_numpy(row[:size])
        logits = model.logits(model(tokens[None], nominal)[0])
        for place in range(start, size):
            odds = logits[place - 1].exp()
            losses.append(-(odds[tokens[place]] / odds.sum()).log())
    return sum(losses) / len(losses)


@pytest.mark.parametrize("most", [1, 2, 100])
@pytest.mark.parametrize("name", ["nope", "sinusoidal", "learned", "t5", "alibi", "rope"])
def test_a_step_equals_naive_cross_entropy_over_answer_tokens(name, most, monkeypatch):
    monkeypatch.setattr(module, "RECTANGLES", {"cpu": most})
    monkeypatch.setattr(batches, "STEP", 2)  # so that short sequences too are laid out in several rectangles
    model, examples, nominal = task_model(name, TASK, LENGTH), batch_of(), TASK.tokens(LENGTH)
    assert len(set(examples.sizes)) > 2, "mixed lengths"
    loss = backward(model, examples, nominal, torch.Generator())
    found = gradients(model)
    model.zero_grad()
    expected = naive_loss(model, examples, nominal)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for key, gradient in gradients(model).items():
        torch.testing.assert_close(found[key], gradient, atol=1e-5, rtol=1e-5, msg=key)


@pytest.mark.parametrize("most", [1, 100])
@pytest.mark.parametrize("name", ["copying", "addition", "parity", "key_retrieval", "sorting"])
def test_the_answer_and_its_end_are_the_targets_and_nothing_else(name, most, monkeypatch):
    monkeypatch.setattr(batches, "STEP", 2)
    task = tasks.get(name, longest=LENGTH)
    examples = tasks.train_batch(task, LENGTH, 16, 0, 0)
    batch = as_batch(examples, most)
    rows = torch.cat([part.flatten() for part in batch.tokens])
    rows = rows if batch.layout.cell_of is None else rows[batch.layout.cell_of]
    order, first = np.argsort(examples.sizes, kind="stable"), 0
    for row, origin in enumerate(order):
        tokens, start, size = examples.tokens[origin], examples.answer_start[origin], examples.sizes[origin]
        assert rows[first : first + size].tolist() == tokens[:size].tolist(), "rows are the tokens, without padding"
        mine = batch.owner == row
        assert batch.targets[mine].tolist() == tokens[start:size].tolist()
        assert batch.targets[mine][-1] == EOS
        assert batch.places[mine].tolist() == [first + at - 1 for at in range(start, size)]
        assert tokens[start - 1] == tasks.SEP
        first += size
    assert len(rows) == first and batch.count == len(order)


def test_prompt_and_padding_carry_no_loss():
    model, examples = task_model("nope", TASK, LENGTH), batch_of()
    seen = []
    model.norm.register_forward_hook(lambda module, inputs, output: seen.append(output))
    backward(model, examples, TASK.tokens(LENGTH), torch.Generator())
    (hidden,) = seen
    assert len(hidden) == examples.targets.sum(), "no other row is even computed"


def test_the_model_is_told_the_length_of_l_whatever_was_drawn():
    told = []

    class Told(NoPE):
        def prepare(self, at):
            told.append(at.nominal)

    model, recipe = task_model(Told, TASK, LENGTH), recipe_of(steps=2, batch=1)
    train(model, FlatAdamW(model, recipe), TASK, LENGTH, recipe, 0, State())
    assert set(told) == {TASK.tokens(LENGTH)}
    assert min(tasks.train_batch(TASK, LENGTH, 1, 0, step).sizes[0] for step in range(2)) < TASK.tokens(LENGTH)


def test_more_padding_changes_nothing():
    examples = batch_of()
    wider = replace(examples, tokens=np.pad(examples.tokens, ((0, 0), (0, 7)), constant_values=tasks.PAD))
    model = task_model("rope", TASK, LENGTH)
    first = backward(model, examples, TASK.tokens(LENGTH), torch.Generator())
    before = gradients(model)
    model.zero_grad()
    second = backward(model, wider, TASK.tokens(LENGTH), torch.Generator())
    assert first.item() == pytest.approx(second.item(), rel=1e-6)
    for key, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, before[key], atol=1e-6, rtol=1e-5)


@given(count=st.integers(1, 12), most=st.integers(1, 15), step=st.integers(1, 20), seed=st.integers(0, 50))
@settings(max_examples=50, deadline=None)
def test_rectangles_hold_every_example_once_in_order_of_size(count, most, step, seed):
    examples = batch_of(count, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "STEP", step)
        batch = as_batch(examples, most)
    assert len(batch.tokens) <= most and batch.count == count
    assert batch.layout.shapes == tuple(tuple(part.shape) for part in batch.tokens)
    sizes = [int((row != tasks.PAD).sum()) for part in batch.tokens for row in part]
    assert sizes == sorted(examples.sizes)
    assert all(part.shape[1] == (part != tasks.PAD).sum(1).max() for part in batch.tokens), "no wider than need be"
    rows = [row[row != tasks.PAD].tolist() for part in batch.tokens for row in part]
    assert sorted(rows) == sorted(row[row != tasks.PAD].tolist() for row in examples.tokens)


# --- the recipe


def test_the_learning_rate_rises_to_its_peak_and_falls_to_zero():
    recipe = recipe_of(steps=100, warmup_steps=10, learning_rate=2.0)
    rates = [learning_rate(recipe, step) for step in range(100)]
    assert rates[:10] == pytest.approx([0.2 * n for n in range(1, 11)])
    assert rates[9] == rates[10] == 2.0
    assert rates[55] == pytest.approx(1.0), "half way down"
    assert rates[32] == pytest.approx(2 * math.cos(math.pi * 22 / 180) ** 2)
    assert all(a > b for a, b in pairwise(rates[10:]))
    assert 0 < rates[99] < 0.002
    assert learning_rate(recipe, 100) == pytest.approx(0, abs=1e-12)


def test_the_learning_rate_without_a_warmup_and_with_nothing_else():
    assert learning_rate(recipe_of(warmup_steps=0, learning_rate=2.0), 0) == 2.0
    warming = recipe_of(steps=4, warmup_steps=8, learning_rate=2.0)
    assert [learning_rate(warming, step) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert learning_rate(recipe_of(steps=4, warmup_steps=4, learning_rate=2.0), 3) == 2.0


@pytest.mark.parametrize("name", NAMES)
def test_only_the_matrices_of_the_model_decay(name):
    model = tiny_model(name)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    recipe = recipe_of(learning_rate=0.5, weight_decay=0.2)
    optimizer = FlatAdamW(model, recipe)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.clip(1.0)
    optimizer.step()  # without gradients only the decay moves anything
    moved = {n for n, p in model.named_parameters() if not torch.equal(p, before[n])}
    matrices = {f"blocks.{n}.{part}.weight" for n in range(2) for part in ("qkv", "out", "up", "down")}
    assert moved == matrices | {"head.weight"}
    for key in moved:
        torch.testing.assert_close(model.get_parameter(key), before[key] * (1 - 0.5 * 0.2))


def test_the_optimizer_is_adamw_as_the_recipe_says():
    optimizer = FlatAdamW(tiny_model("t5"), recipe_of(betas=[0.8, 0.7], learning_rate=0.25))
    assert isinstance(optimizer, torch.optim.AdamW)
    assert all((group["betas"], group["lr"]) == ((0.8, 0.7), 0.25) for group in optimizer.param_groups)


def test_training_takes_the_steps_that_the_recipe_describes():
    """Three steps written out: batch, loss, clipping, rate, AdamW."""
    recipe = recipe_of(steps=3, warmup_steps=1, clip_norm=0.05, learning_rate=0.01)
    trained, model = (task_model("t5", TASK, LENGTH, seed=1) for _ in range(2))
    state = State()
    train(trained, FlatAdamW(trained, recipe), TASK, LENGTH, recipe, 4, state)
    moments = {n: (torch.zeros_like(p), torch.zeros_like(p)) for n, p in model.named_parameters()}
    losses = []
    for step in range(3):
        model.zero_grad()
        loss = naive_loss(model, tasks.train_batch(TASK, LENGTH, recipe.batch, 4, step), TASK.tokens(LENGTH))
        loss.backward()
        losses.append(loss.item())
        norm = sum(p.grad.square().sum() for p in model.parameters()).sqrt()
        assert norm > 0.05, "clipping acts"
        rate = [0.01, 0.01, 0.005][step]
        with torch.no_grad():
            for key, p in model.named_parameters():
                gradient, (first, second) = p.grad * 0.05 / norm, moments[key]
                first.lerp_(gradient, 0.1)
                second.lerp_(gradient**2, 0.02)
                decays = p.ndim == 2 and not key.startswith(("embedding", "encoding"))
                p.mul_(1 - rate * 0.1 * decays)
                p.sub_(rate * (first / (1 - 0.9 ** (step + 1))) / ((second / (1 - 0.98 ** (step + 1))).sqrt() + 1e-8))
    assert state.step == 3
    assert [loss for _, loss in state.loss] == pytest.approx(losses, rel=1e-4)
    for key, p in model.named_parameters():
        torch.testing.assert_close(trained.get_parameter(key), p, atol=2e-4, rtol=1e-3, msg=key)


def test_the_loss_curve_has_means_over_equal_stretches(monkeypatch):
    recipe = recipe_of(steps=45)
    model, values, seen, state = task_model("nope", TASK, LENGTH), [], [], State()

    def spy(*arguments):
        loss = backward(*arguments)
        values.append(loss.item())
        return loss

    monkeypatch.setattr(module, "backward", spy)
    train(model, FlatAdamW(model, recipe), TASK, LENGTH, recipe, 0, state, lambda state: seen.append(state.step))
    assert [step for step, _ in state.loss] == [*range(2, 45, 2), 45]
    expected = [sum(values[n : n + 2]) / len(values[n : n + 2]) for n in range(0, 45, 2)]
    assert [loss for _, loss in state.loss] == pytest.approx(expected)
    assert (state.loss_sum, state.loss_steps, len(state.step_ms)) == (0.0, 0, 23)
    assert state.loss[-1][1] < state.loss[0][1], "it learns"
    assert seen == list(range(1, 46)), "told after every step"


# --- stopped and gone on


class Drawing(NoPE):
    """Noise on the scores while training: what hangs on the generator must be the same after a stop too."""

    info = replace(NoPE.info, name="test drawing", random=True)

    def bias(self, q, k, at):
        noise = torch.randn(q.shape[2], q.shape[2], generator=at.generator)
        return noise if self.training else torch.zeros_like(noise)


RECIPE = recipe_of(steps=45)


def fresh(encoding="t5") -> tuple[Decoder, FlatAdamW]:
    model = task_model(encoding, TASK, LENGTH, seed=1, layers=1)
    return model, FlatAdamW(model, RECIPE)


def finish(model, optimizer, state, after_step=lambda state: None) -> None:
    train(model, optimizer, TASK, LENGTH, RECIPE, 6, state, after_step)


def interrupted(folder: Path, encoding, stops: list[int]) -> tuple[Decoder, State]:
    """A run that is stopped after each of some steps, and taken up by a new process (as it were) each time."""
    for stop in stops:
        model, optimizer = fresh(encoding)
        state = load_checkpoint(folder, model, optimizer, "run") or State()

        def after_step(state, stop=stop, model=model, optimizer=optimizer):
            if state.step == stop:
                save_checkpoint(folder, model, optimizer, state, "run")
                raise Stopped

        with pytest.raises(Stopped):
            finish(model, optimizer, state, after_step)
    model, optimizer = fresh(encoding)
    state = load_checkpoint(folder, model, optimizer, "run")
    assert state is not None
    finish(model, optimizer, state)
    return model, state


def assert_equal_runs(model: Decoder, state: State, other: Decoder, other_state: State) -> None:
    weights, others = model.state_dict(), other.state_dict()
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[key], others[key]) for key in weights)
    timings = {"step_ms": [], "train_s": 0.0, "total_s": 0.0}
    assert replace(state, **timings) == replace(other_state, **timings)


@pytest.fixture(scope="module")
def undisturbed() -> dict:
    runs = {}
    for encoding in ("nope", "learned", "t5", Drawing):
        model, optimizer = fresh(encoding)
        state = State()
        finish(model, optimizer, state)
        runs[encoding] = model, state
    return runs


@pytest.mark.parametrize("stop", [1, 2, 5, 6, 31, 44, 45])
def test_a_run_stopped_after_any_step_ends_bit_for_bit_the_same(undisturbed, stop, tmp_path):
    assert_equal_runs(*interrupted(tmp_path, "t5", [stop]), *undisturbed["t5"])


@pytest.mark.parametrize("encoding", ["nope", "learned", Drawing])
def test_so_does_one_with_any_encoding(undisturbed, encoding, tmp_path):
    assert_equal_runs(*interrupted(tmp_path, encoding, [7, 20]), *undisturbed[encoding])


@given(stops=st.sets(st.integers(1, 45), min_size=1, max_size=3))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
def test_so_does_one_stopped_several_times(undisturbed, stops, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    assert_equal_runs(*interrupted(folder, "t5", sorted(stops)), *undisturbed["t5"])


def test_saving_changes_nothing(undisturbed, tmp_path):
    model, optimizer = fresh()
    state = State()
    finish(model, optimizer, state, lambda state: save_checkpoint(tmp_path, model, optimizer, state, "run"))
    assert_equal_runs(model, state, *undisturbed["t5"])
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_a_checkpoint_holds_the_whole_state(tmp_path):
    model, optimizer = fresh()
    state = State(3, True, [(2, 1 / 3)], 0.1 + 0.2, 1, [1.5], 2.5, 3.5, "2026-01-01T00:00:00+00:00")
    save_checkpoint(tmp_path, model, optimizer, state, "run")
    assert load_checkpoint(tmp_path, *fresh(), "run") == state


# --- checkpoints that cannot be used


@pytest.fixture
def saved(tmp_path) -> Path:
    """The checkpoint of a run of which nine steps are done."""
    model, optimizer = fresh()

    def after_step(state):
        if state.step == 9:
            save_checkpoint(tmp_path, model, optimizer, state, "run")
            raise Stopped

    with pytest.raises(Stopped):
        finish(model, optimizer, State(), after_step)
    return tmp_path / CHECKPOINT


def parts_of(path: Path) -> tuple[dict, bytes]:
    """Header and tensors of a safetensors file: eight bytes of size, JSON, numbers."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def put_together(path: Path, header: dict, numbers: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + numbers)


def truncated(share: float):
    return lambda path: path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def renamed(old: str, new: str):
    """One tensor under another name, as by a flipped bit in the header."""

    def damage(path: Path) -> None:
        header, numbers = parts_of(path)
        assert old in header
        put_together(path, {new if key == old else key: value for key, value in header.items()}, numbers)

    return damage


def restated(**changes: object):
    """Other metadata."""

    def damage(path: Path) -> None:
        header, numbers = parts_of(path)
        header["__metadata__"] |= {key: json.dumps(value) for key, value in changes.items()}
        put_together(path, header, numbers)

    return damage


def bare(path: Path) -> None:
    header, numbers = parts_of(path)
    del header["__metadata__"]
    put_together(path, header, numbers)


DAMAGES = {
    "empty": truncated(0),
    "a few bytes": lambda path: path.write_bytes(path.read_bytes()[:5]),
    "cut in the header": truncated(0.02),
    "cut in the middle": truncated(0.5),
    "cut at the end": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "other file": lambda path: path.write_bytes(b"PK\x03\x04" + bytes(range(256)) * 40),
    "foreign": restated(identity="another run"),
    "no metadata": bare,
    "state is no mapping": restated(state=[1, 2]),
    "state of another version": restated(state={"steps": 3}),
}
DAMAGED = [
    *(pytest.param(damage, id=name) for name, damage in DAMAGES.items()),
    pytest.param(renamed("model/head.weight", "model/heap.weight"), id="weight missing"),
    pytest.param(renamed("exp_avg/decayed", "exp_avg/decoyed"), id="moment missing"),
]


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_checkpoint_that_cannot_be_used_is_set_aside_and_the_run_starts_anew(undisturbed, saved, damage):
    damage(saved)
    content = saved.read_bytes()
    model, optimizer = fresh()
    assert load_checkpoint(saved.parent, model, optimizer, "run") is None
    assert not saved.exists()
    assert saved.with_name(CHECKPOINT + ".unusable").read_bytes() == content
    state = State()
    finish(model, optimizer, state)
    assert_equal_runs(model, state, *undisturbed["t5"])


def test_a_checkpoint_of_another_encoding_is_set_aside(saved):
    assert load_checkpoint(saved.parent, *fresh("learned"), "run") is None
    assert not saved.exists()


def test_without_a_checkpoint_there_is_nothing_to_go_on_from(tmp_path):
    assert load_checkpoint(tmp_path, *fresh(), "run") is None
    assert not list(tmp_path.iterdir())


# --- divergence


def test_a_loss_that_is_no_longer_finite_ends_the_run():
    recipe = recipe_of(steps=30, learning_rate=1e30)
    model = task_model("nope", TASK, LENGTH)
    state, seen = State(), []

    def look(state):
        seen.append((state.step, state.diverged))

    train(model, FlatAdamW(model, recipe), TASK, LENGTH, recipe, 0, state, look)
    assert state.diverged
    assert 0 < state.step < 30
    assert seen[-1] == (state.step, True), "whoever saves or reports is told"
    assert all(not diverged for _, diverged in seen[:-1])
    assert len(seen) == state.step + 1
    assert all(math.isfinite(loss) for _, loss in state.loss)
    train(model, FlatAdamW(model, recipe), TASK, LENGTH, recipe, 0, state, look)
    assert len(seen) == state.step + 1, "a diverged run is over"


class Exploding(NoPE):
    """An infinite stream from the first step on."""

    info = replace(NoPE.info, name="test exploding")

    def embed(self, x, at):
        return x * math.inf


def test_a_run_that_diverges_at_once_keeps_its_weights(tmp_path):
    model, optimizer = fresh(Exploding)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = State()
    finish(model, optimizer, state)
    assert (state.step, state.diverged, state.loss) == (0, True, [])
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    save_checkpoint(tmp_path, model, optimizer, state, "run")
    again = load_checkpoint(tmp_path, *fresh(Exploding), "run")
    assert again.diverged and again.step == 0, "and stays diverged when it is taken up again"


class LastGasp(NoPE):
    """A finite loss whose gradient is not: √x at x = 0."""

    info = replace(NoPE.info, name="test last gasp")

    def embed(self, x, at):
        return x + (x - x.detach()).abs().sqrt()


def test_weights_that_are_no_longer_finite_after_the_last_step_are_divergence():
    recipe = recipe_of(steps=1)
    model = task_model(LastGasp, TASK, LENGTH)
    state = State()
    train(model, FlatAdamW(model, recipe), TASK, LENGTH, recipe, 0, state)
    assert state.diverged or all(p.isfinite().all() for p in model.parameters())
