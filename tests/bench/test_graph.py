"""Steps of fixed shapes, and their recordings: with a recorder that does the work again, since a CUDA graph needs a GPU."""

import logging

import numpy as np
import pytest
import torch
from helpers import NAMES, recipe_of, task_model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import tasks
from bench import encodings
from bench.batches import IGNORED, as_batch, fixed_batch
from bench.graph import Graphed
from bench.model import Decoder
from bench.optimizer import FlatAdamW
from bench.train import State, cross_entropy, graphed, train

LENGTH = 5
TASKS = {name: tasks.get(name, longest=2 * LENGTH) for name in tasks.catalogue()}
TASK = TASKS["copying"]
STEPS = 20


def fixed(task: tasks.Task, examples: tasks.Examples, length: int = LENGTH):
    return fixed_batch(examples, task.tokens(length), task.widths(length)[1] + 1)


def rerun(work):
    """Memory that stays where it is and is filled again: what a graph is to those who look at it from outside."""
    made = work()

    def replay():
        for old, new in zip(made, work(), strict=True):
            old.copy_(new)

    return made, replay


def deaf(work):
    """Plays the first step whatever it is given."""
    return work(), lambda: None


def refuses(work):
    raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore lines")


class Plainly(Graphed):
    """Steps of fixed shapes without recording."""

    def __call__(self, batch, nominal):
        return self.afresh(batch, nominal)


def trained(name: str, graphs=None, steps: int = STEPS) -> tuple[Decoder, State, object]:
    model, recipe, state = task_model(name, TASK, LENGTH), recipe_of(steps=steps), State()
    made = graphs(model) if graphs else None
    train(model, FlatAdamW(model, recipe), TASK, LENGTH, recipe, 0, state, graphs=made)
    return model, state, made


def same(ours: Decoder, theirs: Decoder) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


# --- fixed shapes


@given(st.sampled_from(list(TASKS)), st.integers(1, 12), st.integers(0, 100))
@settings(deadline=None)
def test_shapes_are_those_of_the_longest_and_every_target_is_there_once(name, count, seed):
    task = TASKS[name]
    examples = tasks.train_batch(task, LENGTH, count, seed, 0)
    batch = fixed(task, examples)
    (tokens,) = batch.tokens
    assert tokens.shape == (count, task.tokens(LENGTH))
    assert len(batch.places) == len(batch.targets) == len(batch.owner) == count * (task.widths(LENGTH)[1] + 1)
    assert len(set(batch.places.tolist())) == len(batch.places), "two gradients for one row would be lost"
    counts = batch.targets != IGNORED
    found = sorted(
        zip(batch.owner[counts].tolist(), batch.places[counts].tolist(), batch.targets[counts].tolist(), strict=True)
    )
    width = tokens.shape[1]
    expected = [
        (row, row * width + at - 1, examples.tokens[row, at])
        for row in range(count)
        for at in range(examples.answer_start[row], examples.sizes[row])
    ]
    assert found == expected
    for row, drawn, size in zip(tokens, examples.tokens, examples.sizes, strict=True):
        assert np.array_equal(row[:size], drawn[:size])


@pytest.mark.parametrize("name", [name for name in NAMES if not encodings.get(name).info.random])
def test_padding_to_one_shape_changes_neither_loss_nor_gradient(name):
    examples = tasks.train_batch(TASK, LENGTH, 8, 0, 0)
    model, nominal, found = task_model(name, TASK, LENGTH), TASK.tokens(LENGTH), []
    for batch in (as_batch(examples, 8), fixed(TASK, examples)):
        model.zero_grad(set_to_none=True)
        loss = cross_entropy(model, batch, nominal, None)
        loss.backward()
        found.append((loss, {key: p.grad for key, p in model.named_parameters()}))
    (ragged, expected), (padded, gradients) = found
    assert padded.item() == pytest.approx(ragged.item(), rel=1e-5)
    for key, gradient in gradients.items():
        if expected[key] is None or gradient is None:
            assert expected[key] is gradient is None
        else:
            torch.testing.assert_close(gradient, expected[key], atol=2e-5, rtol=1e-4, msg=key)


# --- recordings


@pytest.mark.parametrize("name", ["nope", "learned", "t5", "alibi", "rope", "da", "cope"])
def test_a_recording_trains_as_plain_steps_do(name):
    ours, state, graphs = trained(name, lambda model: graphed(model, rerun))
    theirs, expected, _ = trained(name, lambda model: Plainly(model, graphed(model).plain))
    assert graphs.trusted
    assert [recording.plays for recording in graphs.recordings.values()] == [STEPS]
    assert same(ours, theirs)
    assert state.loss == expected.loss


def test_an_extra_stage_is_a_shape_of_its_own(caplog):
    model, recipe = task_model("finetuned(rope)", TASK, LENGTH), recipe_of(steps=200, batch=2)
    graphs = graphed(model, rerun)
    train(model, FlatAdamW(model, recipe), TASK, LENGTH, recipe, 0, State(), graphs=graphs)
    assert [(key[0], recording.plays) for key, recording in graphs.recordings.items()] == [
        (TASK.tokens(LENGTH), 200),
        (TASK.tokens(TASK.longest), 2),
    ]
    assert graphs.trusted and not caplog.records


@pytest.mark.parametrize(
    ("recorder", "reason"),
    [(deaf, "differs from a plain step"), (refuses, "cannot be recorded: CUDA error: operation not permitted")],
)
def test_a_recording_that_cannot_be_trusted_is_left(recorder, reason, caplog):
    caplog.set_level(logging.WARNING)
    model, state, graphs = trained("rope", lambda model: graphed(model, recorder))
    assert not graphs.trusted
    (record,) = caplog.records
    assert "rope trains without a CUDA graph" in record.message and reason in record.message
    assert "more lines" not in record.message
    plain, expected, _ = trained("rope")
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
    assert [step for step, _ in state.loss] == [step for step, _ in expected.loss]


def test_a_recording_gone_wrong_costs_no_step():
    """The step in which it is noticed is the plain one."""
    ours, _, _ = trained("nope", lambda model: graphed(model, deaf), steps=2)
    theirs, _, _ = trained("nope", lambda model: Plainly(model, graphed(model).plain), steps=2)
    assert same(ours, theirs)


def test_an_encoding_that_draws_is_not_recorded():
    ours, _, graphs = trained("randomised(rope)", lambda model: graphed(model, refuses))
    assert not graphs.trusted and not graphs.recordings
    assert same(ours, trained("randomised(rope)")[0])


def test_tables_are_kept_as_long_as_a_recording_reads_them():
    model = task_model("rope", TASK, LENGTH)
    graphs = graphed(model, rerun)
    examples = tasks.train_batch(TASK, LENGTH, 4, 0, 0)
    graphs(fixed(TASK, examples), TASK.tokens(LENGTH))
    (kept,) = [recording.tables for recording in graphs.recordings.values()]
    assert kept and kept == list(model.known.values())


# --- what can be recorded


WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "repeat_interleave.Tensor", "equal")
"""Operations that wait for a GPU, or whose shape it alone knows."""
META = torch.device("meta")
"""Stands for a GPU: another device than that of Python's numbers."""


class Watch(TorchDispatchMode):
    """Notes what would break a recording on a GPU: waiting for it, and bringing it numbers."""

    def __init__(self):
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        name, keywords = str(operation).removeprefix("aten."), keywords or {}
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        if name.startswith(WAITING):
            self.found.add(name)
        if name.startswith("lift_fresh") and tensors[0].ndim > 0:  # a number alone is an argument
            self.found.add("numbers of Python")
        if name.startswith("_to_copy") and tensors[0].device != META == keywords.get("device"):
            self.found.add("numbers of Python")
        if name.startswith("copy_") and len({t.device for t in tensors}) > 1:
            self.found.add("numbers of Python")
        masks = arguments[1] if name.startswith("index") and isinstance(arguments[1], (list, tuple)) else []
        if any(t is not None and t.dtype == torch.bool for t in masks):
            self.found.add("a mask as index")
        return operation(*arguments, **keywords)


BRINGS_NUMBERS = {
    "dape(alibi)", "finetuned(interpolated(rope,fixed=True))", "grape_a", "interpolated(alibi)", "interpolated(rope)",
    "selective_rope", "ssmax(rope)", "transformer_xl",
}  # fmt: skip
"""Encodings with tables that are made by the CPU in every step: they take plain steps on a GPU too."""
UNKNOWN = {"path"}
"""That cannot be run without numbers at all."""


def test_which_encodings_can_be_recorded():
    """All that do not draw, but for those known. A tensor made for a device out of a list shows on a CPU alone."""
    unfit = set()
    for name in NAMES:
        if encodings.get(name).info.random or name in UNKNOWN:
            continue
        for device in (torch.device("cpu"), META):
            model = task_model(name, TASK, LENGTH).to(device)
            batch = fixed(TASK, tasks.train_batch(TASK, LENGTH, 4, 0, 0)).to(device)
            step = graphed(model).afresh
            step(batch, TASK.tokens(LENGTH))  # the warm-up
            with Watch() as watch:
                step(batch, TASK.tokens(LENGTH))
            if watch.found:
                unfit.add(name)
    assert sorted(unfit) == sorted(BRINGS_NUMBERS)
