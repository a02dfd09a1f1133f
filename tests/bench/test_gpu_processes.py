"""The processes in which ``python -m bench.gpu`` compares encodings with the CPU and compiles libraries, without a GPU."""

import math
import os
import threading
import time
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.gpu.equality import Comparer, DrawOnCPU, Largest, compare, measure_equality, relative, serve_comparisons
from bench.gpu.measurements import Failure
from bench.gpu.steps import Compiling, compiling, measure_compiled, serve_step


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=5), st.floats(1e-6, 1))
def test_relative_difference(values, share):
    expected = torch.tensor([*values, 1.0], dtype=torch.float64)
    assert relative([expected * (1 + share)], [expected]) == pytest.approx(share)
    seen = Largest()
    for loss in (float("nan"), float("inf")):
        seen.add((torch.tensor(loss), [expected]), (torch.tensor(1.0), [expected]))
        assert seen.loss == 1e300 and seen.gradient == 0


def test_a_wrong_device_is_seen(monkeypatch):
    """A second model whose activation differs by a thousandth, in place of a GPU that computes something else."""
    from bench.training import model

    exact, calls = torch.nn.functional.gelu, []

    def wrong(x, *args, **kwargs):
        calls.append(0)
        return exact(x, *args, **kwargs) * (1 + 1e-3 * (len(calls) % 5))

    monkeypatch.setattr(model.F, "gelu", wrong)
    found = compare("nope", "cpu", 1, "quick")
    assert found.gradient > 1e-4 < found.past_logits


def die(pipe, *_):
    pipe.recv()
    os._exit(3)


def hang(pipe, *_):
    time.sleep(60)


@pytest.mark.parametrize(("target", "reason"), [(die, "its process ended with 3"), (hang, "takes longer than 2 s")])
def test_an_encoding_whose_process_dies_or_hangs_is_a_failure_and_the_next_has_another(monkeypatch, target, reason):
    monkeypatch.setattr("bench.gpu.equality.serve_comparisons", target)
    comparer = Comparer("cpu", 1, "quick")
    for name in ("nope", "rope"):
        assert comparer.compare(name, 2 if target is hang else 600) == Failure(key=f"equality {name}", error=reason)
        assert comparer.process is None


def test_no_comparison_begins_once_the_time_is_over(monkeypatch):
    begun, reported = [], []

    def compare_one(self, name, seconds):
        begun.append(name)
        return Failure(key=name, error="x")

    monkeypatch.setattr(Comparer, "compare", compare_one)
    monkeypatch.setattr("bench.gpu.equality.time", SimpleNamespace(monotonic=lambda: len(begun)))  # one second each
    measure_equality([f"e{i}" for i in range(20)], "cpu", 1, "quick", 1, end=4, report=reported.append)
    assert begun == ["e0", "e1", "e2", "e3"] and {m.key for m in reported} == set(begun)


@pytest.fixture
def served(monkeypatch):
    """Runs a function of another process in a thread of this one, with both ends of its pipe."""
    monkeypatch.setattr("bench.gpu.equality.end_with_parent", lambda: None)
    monkeypatch.setattr("bench.gpu.steps.end_with_parent", lambda: None)
    threads = []

    def serve(function, *arguments):
        ours, theirs = Pipe()
        threads.append(threading.Thread(target=function, args=(theirs, *arguments), daemon=True))
        threads[-1].start()
        return ours

    return serve


def test_a_signal_ends_the_comparisons_at_once(monkeypatch):
    stopped = threading.Event()

    def compare_one(self, name, seconds):
        if name != "first":
            assert stopped.wait(60), "the processes were not stopped"
        return Failure(key=name, error="")

    def interrupt(found):
        raise KeyboardInterrupt

    monkeypatch.setattr(Comparer, "compare", compare_one)
    monkeypatch.setattr(Comparer, "stop", lambda self: stopped.set())
    with pytest.raises(KeyboardInterrupt):
        measure_equality(["first", "second", "third"], "cpu", 1, "quick", 2, end=math.inf, report=interrupt)
    assert stopped.is_set()


def test_the_error_of_an_encoding_is_sent_to_the_parent(served):
    pipe = served(serve_comparisons, "cpu", 1, "quick")
    for _ in range(2):
        pipe.send("nopee")
        assert pipe.recv().startswith("InputError: unknown encoding 'nopee'")
    pipe.close()


def test_compiled_models_are_timed_and_those_that_fail_are_left_out(served, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: function)
    pairs = [("GPT-2", "learned"), ("Llama", "rope"), ("GPT-5", "rope")]
    started = [Compiling("small", "parity", *pair, None, served(serve_step, "small", "parity", *pair, "cpu")) for pair in pairs]
    (measured,) = measure_compiled(started, 2, math.inf)
    assert measured.key == "small, version 2 parity compiled"
    assert [(s.who, s.encoding, s.ms.count) for s in measured.steps] == [
        ("GPT-2, compiled", "learned", 2),
        ("Llama, compiled", "rope", 2),
    ]
    assert measured.left_out.keys() == {"rope, GPT-5, compiled"}
    ours, _theirs = Pipe()
    late = Compiling("small", "parity", "Llama", "rope", None, ours)
    with pytest.raises(TimeoutError, match="Llama was not compiled in time"):
        measure_compiled([late], 1, time.monotonic() - 1)


def test_processes_that_compile_end_with_the_measurement(monkeypatch):
    monkeypatch.setattr("bench.gpu.steps.serve_step", hang)
    with compiling([("small", "parity")], torch.device("cpu")) as started:
        assert all(one.process.is_alive() for one in started)
    assert not any(one.process.is_alive() for one in started)


def test_both_devices_draw_the_same_numbers():
    def drawn(device):
        return torch.randint(100, (8,), generator=torch.Generator().manual_seed(3), device=device)

    with DrawOnCPU():
        elsewhere, here = drawn("meta"), drawn("cpu")
    assert elsewhere.device.type == "meta" and here.tolist() == drawn("cpu").tolist()
