"""The second stream of a recording, with streams that only note who waits for whom."""

from contextlib import contextmanager

import pytest
import torch
from helpers import task_model

import tasks
from bench.training.batches import few_shapes_batch
from bench.training.layers import LayerNorm, Linear
from bench.training.side_stream import SideStream, has_side_stream, on_side_stream, side_stream
from bench.training.train import graphed_step

TASK, LENGTH = tasks.get("copying", "repeat", 10), 5


class Stream:
    def __init__(self, log: list[str], name: str = "side"):
        self.log, self.name = log, name

    def wait_stream(self, other: "Stream") -> None:
        self.log.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def log(monkeypatch):
    """What happens to the streams, in order."""
    lines: list[str] = []
    present = [Stream(lines, "main")]

    @contextmanager
    def stream(new):
        present.append(new)
        lines.append(f"on {new.name}")
        yield
        lines.append("back")
        present.pop()

    monkeypatch.setattr(torch.cuda, "Stream", lambda: Stream(lines))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: present[-1])
    monkeypatch.setattr(torch.cuda, "stream", stream)
    return lines


def gradients(model):
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


def test_a_recorded_step_has_the_same_gradients_with_a_second_stream(log):
    model = task_model("rope", TASK, LENGTH)
    seen = []

    def recorder(function):
        function()
        assert not log and not has_side_stream()
        seen.append(gradients(model))
        with side_stream():
            outputs = function()
            assert SideStream.active is not None and len(SideStream.active.inputs) >= 2 * len(SideStream.active.parameters)
        return outputs, lambda: None

    graphs = graphed_step(model, recorder)
    examples = tasks.train_batch(TASK, LENGTH, 8, 0, 0)
    graphs(few_shapes_batch(examples, TASK.tokens(LENGTH), TASK.widths(LENGTH)[1] + 1), TASK.tokens(LENGTH))
    assert graphs.usable
    for ours, plain in zip(gradients(model), seen[0], strict=True):
        torch.testing.assert_close(ours, plain)
    aside = sum(isinstance(module, LayerNorm) for module in model.modules())  # linear maps only under autocast
    work = ["side waits for main", "on side", "back"]
    assert log == ["side waits for main", *work * aside, "main waits for side"]
    assert not has_side_stream()


def test_linear_maps_compute_their_weights_gradient_aside(log):
    linear, x = Linear(8, 4), torch.randn(5, 8, requires_grad=True)
    with side_stream(), torch.autocast("cpu", torch.bfloat16):
        linear(x).sum().backward()
    assert log == ["side waits for main", "side waits for main", "on side", "back", "main waits for side"]
    assert linear.weight.grad is not None and x.grad is not None


def test_after_an_error_there_is_no_second_stream(log):
    with pytest.raises(KeyError), side_stream():
        raise KeyError
    assert log == ["side waits for main"] and not has_side_stream()
    with on_side_stream(torch.zeros(1)):
        pass
    assert log == ["side waits for main"]


@pytest.mark.usefixtures("log")
def test_a_layer_that_is_used_twice_cannot_be_recorded():
    """Its two gradients would be added before the second stream has computed them."""
    norm, x = LayerNorm(8), torch.randn(5, 8, requires_grad=True)
    with pytest.raises(RuntimeError, match="used twice"), side_stream():
        norm(norm(x)).sum().backward()
