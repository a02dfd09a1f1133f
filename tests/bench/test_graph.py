"""Steps of few shapes and their recordings, with a recorder that works without a GPU."""

import logging
import math
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch
from helpers import NAMES, recipe_of, task_model
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import tasks
from bench.plugins.registry import get_encoding
from bench.training.batches import EIGHTHS, IGNORED, as_batch, few_shapes_batch
from bench.training.cuda_graphs import CopyOnce, GraphedStep, cuda_graph
from bench.training.model import Decoder
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, answer_loss, train

LENGTH = 5
TASKS = {name: tasks.get(name, longest=2 * LENGTH) for name in tasks.catalogue() if name != "text"}
TASK = TASKS["copying"]


def graphed_step(model, recorder=cuda_graph):
    return GraphedStep(model, partial(answer_loss, model), recorder)


def recomputed(function):
    """In place of ``cuda_graph`` where there is no GPU: every replay computes again."""
    outputs = function()

    def replay() -> None:
        for old, new in zip(outputs, function(), strict=True):
            old.copy_(new)

    return outputs, replay


STEPS = 20


def fixed(task: tasks.Task, examples: tasks.Examples, length: int = LENGTH):
    return few_shapes_batch(examples, task.tokens(length), task.widths(length)[1] + 1)


def ignore_inputs(function):
    """Every replay returns the first step."""
    return function(), lambda: None


def fail(function):
    raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore lines")


class WithoutRecording(GraphedStep):
    """Steps of fixed shapes without recording."""

    def __call__(self, batch, announced_length):
        return self.plain_step(batch, announced_length)


def trained(name: str, graphs=None, steps: int = STEPS) -> tuple[Decoder, TrainingState, object]:
    model, recipe, state = task_model(name, TASK, LENGTH), recipe_of(steps=steps), TrainingState()
    made = graphs(model) if graphs else None
    train(model, AdamW(model, recipe), TASK, LENGTH, recipe, 0, state, graphs=made)
    return model, state, made


def same(ours: Decoder, theirs: Decoder) -> bool:
    return all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


# --- fixed shapes


@given(st.sampled_from(list(TASKS)), st.integers(1, 12), st.integers(0, 100))
@settings(deadline=None)
def test_fixed_shapes_contain_every_target_once(name, count, seed):
    task = TASKS[name]
    examples = tasks.train_batch(task, LENGTH, count, seed, 0)
    batch = fixed(task, examples)
    tokens = batch.tokens
    assert tokens.shape == (count, task.tokens(LENGTH))
    cells = np.arange(tokens.numel()) if batch.layout.cell_of is None else batch.layout.cell_of.numpy()
    most = tokens.numel(), count * (task.widths(LENGTH)[1] + 1)
    needs, sizes = (examples.sizes.sum(), len(batch.example_of)), (len(cells), len(batch.targets))
    for needed, found, full in zip(needs, sizes, most, strict=True):
        eighth = math.ceil(full / EIGHTHS)
        assert needed <= found < needed + eighth and (found == full or found % eighth == 0)
    width, real = tokens.shape[1], examples.sizes.sum()
    if batch.layout.cell_of is not None:
        assert batch.layout.row_of[cells[:real]].tolist() == list(range(real)) and batch.layout.row_of.max() == real - 1
        padding = [row * width + at for row, size in enumerate(examples.sizes) for at in range(size, width)]
        assert set(cells[real:]) <= set(padding)
    expected = [
        (row, row * width + at - 1, examples.tokens[row, at])
        for row in range(count)
        for at in range(examples.answer_start[row], examples.sizes[row])
    ]
    targets, rows = batch.targets.tolist(), batch.target_rows.tolist()
    assert list(zip(batch.example_of.tolist(), cells[rows], targets, strict=False)) == expected
    offset = 0
    for part in batch.tensors():
        assert torch.equal(batch.memory[offset : offset + part.numel()].view(part.shape), part)
        assert part.data_ptr() == batch.memory[offset:].data_ptr(), "a view: what is copied there, the model reads"
        offset += part.numel()
    assert offset == len(batch.memory)
    assert set(targets[len(expected) :]) <= {IGNORED} and set(rows[len(expected) :]) <= {0} and 0 not in rows[: len(expected)]
    for row, drawn, size in zip(tokens, examples.tokens, examples.sizes, strict=True):
        assert np.array_equal(row[:size], drawn[:size])


@pytest.mark.parametrize("name", [name for name in NAMES if not get_encoding(name).info.random])
def test_fixed_shapes_change_neither_loss_nor_gradient(name):
    examples = tasks.train_batch(TASK, LENGTH, 8, 0, 0)
    model, announced_length, found = task_model(name, TASK, LENGTH), TASK.tokens(LENGTH), []
    for batch in (as_batch(examples), fixed(TASK, examples)):
        model.zero_grad(set_to_none=True)
        loss = answer_loss(model, batch, announced_length, None)
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
def test_recorded_steps_train_like_plain_steps(name):
    ours, state, graphs = trained(name, lambda model: graphed_step(model, recomputed))
    theirs, expected, _ = trained(name, lambda model: WithoutRecording(model, graphed_step(model).loss_of))
    assert graphs.usable
    assert sum(recording.replays for recording in graphs.recordings.values()) == STEPS
    assert len(graphs.recordings) < STEPS / 2, "most steps have a shape that was recorded before"
    assert same(ours, theirs)
    assert state.loss == expected.loss


def test_the_extra_stage_has_its_own_recording(caplog):
    model, recipe = task_model("finetuned(rope)", TASK, LENGTH), recipe_of(steps=200, batch=2)
    graphs = graphed_step(model, recomputed)
    train(model, AdamW(model, recipe), TASK, LENGTH, recipe, 0, TrainingState(), graphs=graphs)
    replays = Counter()
    for (tokens, *_), recording in graphs.recordings.items():
        replays[tokens] += recording.replays
    assert replays == {TASK.tokens(LENGTH): 200, TASK.tokens(TASK.longest): 2}
    assert graphs.usable and not caplog.records


@pytest.mark.parametrize(
    ("recorder", "reason"),
    [(ignore_inputs, "differs from a plain step"), (fail, "cannot be recorded: CUDA error: operation not permitted")],
)
def test_training_goes_on_without_an_unusable_recording(recorder, reason, caplog):
    caplog.set_level(logging.WARNING)
    model, state, graphs = trained("rope", lambda model: graphed_step(model, recorder))
    assert not graphs.usable
    (record,) = caplog.records
    assert "rope trains without a CUDA graph" in record.message and reason in record.message
    assert "more lines" not in record.message
    plain, expected, _ = trained("rope")
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
    assert [step for step, _ in state.loss] == [step for step, _ in expected.loss]


# --- which encodings can be recorded


WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "repeat_interleave.Tensor", "equal")
"""Operations that wait for the GPU, or whose output shape depends on values."""
META = torch.device("meta")
"""In place of a GPU: a device other than the CPU."""


class FindUnrecordable(TorchDispatchMode):
    """Collects operations that would break a recording: waiting for the GPU, and copies from the CPU."""

    def __init__(self):
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, operation, types, arguments=(), keywords=None):
        name, keywords = str(operation).removeprefix("aten."), keywords or {}
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        if name.startswith(WAITING):
            self.found.add(name)
        if name.startswith("lift_fresh") and tensors[0].ndim > 0:  # a single number is passed as an argument
            self.found.add("copy from the CPU")
        if name.startswith("_to_copy") and tensors[0].device != META == keywords.get("device"):
            self.found.add("copy from the CPU")
        if name.startswith("copy_") and len({t.device for t in tensors}) > 1:
            self.found.add("copy from the CPU")
        masks = arguments[1] if name.startswith("index") and isinstance(arguments[1], (list, tuple)) else []
        if any(t is not None and t.dtype == torch.bool for t in masks):
            self.found.add("boolean index")
        return operation(*arguments, **keywords)


NO_META = {"path", "path_fox"}
"""Encodings that cannot run on the meta device."""


def test_all_encodings_but_the_random_ones_can_be_recorded():
    """Tensors made from lists directly on a device are seen on the CPU only."""
    unfit = set()
    for name in NAMES:
        if get_encoding(name).info.random:
            continue
        for device in (torch.device("cpu"), META)[: 1 + (name not in NO_META)]:
            model = task_model(name, TASK, LENGTH).to(device)
            batch = fixed(TASK, tasks.train_batch(TASK, LENGTH, 4, 0, 0)).to(device)
            step = graphed_step(model).plain_step
            with CopyOnce():
                step(batch, TASK.tokens(LENGTH))  # the warm-up
                with FindUnrecordable() as watch:
                    step(batch, TASK.tokens(LENGTH))
            if watch.found:
                unfit.add(f"{name}: {', '.join(watch.found)}")
    assert not unfit


def test_constants_are_copied_once_and_may_be_changed():
    def made() -> Tensor:
        slopes = torch.tensor([0.5, 0.25]).to(META, torch.float64)
        return slopes

    with FindUnrecordable() as watch:
        made()
    assert watch.found == {"copy from the CPU"}
    numbers = torch.arange(3.0)
    with CopyOnce() as once:
        first = numbers.to(torch.float64)
        first += 1
        assert numbers.to(torch.float64).tolist() == [0, 1, 2], "a copy of its own"
        numbers += 1
        assert numbers.to(torch.float64).tolist() == [1, 2, 3], "other numbers, another tensor"
        assert numbers.to(torch.float32).dtype == torch.float32 and torch.tensor([1, 2]).dtype == torch.int64
        assert torch.tensor([1, 2], dtype=torch.float32).dtype == torch.float32
        assert torch.tensor(numbers.numpy()).tolist() == [1, 2, 3]
        weights = torch.ones(2, requires_grad=True)
        assert weights.to(torch.float64).requires_grad
        made()
        with FindUnrecordable() as watch:
            assert made().device == META
    assert not watch.found and once.known
