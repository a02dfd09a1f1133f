"""``python -m bench.gpu`` without a GPU: the smoke run, which uses the CPU as if it were one, and its file."""

import json
import math
import os
import subprocess
import sys
import tarfile
import threading
import time
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bench.gpu import __main__ as command
from bench.gpu.calibration import run_to_end
from bench.gpu.equality import Comparer, DrawOnCPU, Largest, compare, measure_equality, relative, serve_comparisons
from bench.gpu.grid import pack_results, run_grid
from bench.gpu.measurements import Failure, Packed, append, read_measurements
from bench.gpu.mps import multi_process_service
from bench.gpu.packed import measure_packed
from bench.gpu.page import render
from bench.gpu.steps import Compiling, compiling, measure_compiled, measure_steps, serve_step
from bench.speed.libraries import LibraryTraining
from bench.speed.plan import Budget
from bench.suites.suite import load_suite
from tasks import InputError


def test_smoke_run_stops_is_continued_and_measures_nothing_twice(tmp_path):
    arguments = ["--quick", "--out", str(tmp_path), "--workers", "1"]
    command.main([*arguments, "--only", "equality", "--only", "packed"])
    found = read_measurements(tmp_path / "measurements.jsonl")
    packed = [("packed", f"quick, version 1 {count}") for count in (1, 2)]
    assert [(m.kind, m.key) for m in found[:3]] == [("machine", found[0].key), *packed]
    equal = {m.key: m for m in found[3:]}
    assert equal.keys() == {"nope", "randomised(rope)"}
    assert all(
        m.loss == m.gradient == m.past_logits == 0 < m.bf16_loss < 0.02 > m.past_bf16_logits > 0 for m in equal.values()
    ), "one device"
    assert equal["nope"].graph_loss == 0 and equal["randomised(rope)"].fallback == "draws random numbers"
    assert all(m.steps_per_s > 0 and m.busy is None and not m.mps for m in found[1:3]) and found[2].at_once == 2
    assert found[1].runs_per_hour == pytest.approx(3600 * found[1].steps_per_s / load_suite("quick").recipe.steps)
    command.main([*arguments, "--only", "packed", "--only", "calibration", "--only", "grid"])
    later = read_measurements(tmp_path / "measurements.jsonl")[len(found) :]
    assert [m.kind for m in later] == ["machine", "calibration", "grid"] and (later[-1].done, later[-1].asked) == (1, 1)
    assert later[1].key.startswith("parity-2-4-") and not later[1].met and len(later[1].learned) == 6, (
        "four steps teach nothing"
    )
    chosen = load_suite(str(tmp_path / "quick.yaml"))
    (result,) = (tmp_path / "runs").rglob("result.json")
    assert json.loads(result.read_text())["fingerprint"] == chosen.fingerprint and chosen.recipe_for("parity").steps == 4
    with tarfile.open(tmp_path / "results.tar.gz") as packed:
        assert [name.split("/")[-1] for name in packed.getnames()] == ["result.json"]
    text = (tmp_path / "GPU.md").read_text()
    assert text == render(read_measurements(tmp_path / "measurements.jsonl")) and "numbers mean nothing" in text
    assert "Grid `quick`: 1 of 1 runs" in text and str(tmp_path) not in text
    command.main([*arguments, "--minutes", "0"])
    assert [m.kind for m in read_measurements(tmp_path / "measurements.jsonl")[len(found) + 3 :]] == ["machine"]


@pytest.mark.parametrize(("words", "message"), [([], "no CUDA device was found"), (["--quick"], "gpu: cannot write")])
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        command.main([*words, "--out", str(tmp_path / "file" / "gpu")])
    assert ended.value.code == 2 and message in capsys.readouterr().err


def test_a_line_that_was_cut_off_is_dropped_and_others_are_refused(tmp_path):
    path = tmp_path / "m.jsonl"
    first, second = Failure(key="packed small 2", error="é"), Failure(key="b", error="y")
    append(path, first)
    with path.open("ab") as file:
        file.write('{"kind": "failure", "key": "L′'.encode()[:-1])  # in the middle of a character
    assert read_measurements(path) == [first]
    append(path, second)
    assert read_measurements(path) == [first, second]
    assert "- packed small 2: é" in render([first])
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(InputError, match="line 1, is no measurement"):
        read_measurements(path)


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


def test_trainings_that_fail_are_one_line(monkeypatch):
    monkeypatch.setattr("bench.gpu.packed.ENCODINGS", ("nopee",))
    with pytest.raises(InputError, match="a training failed: InputError: unknown encoding 'nopee'"):
        measure_packed("quick", [1, 2], False, torch.device("cpu"), 0.1, math.inf)
    with pytest.raises(TimeoutError, match="2 trainings do not start in time"):
        measure_packed("quick", [1, 2], False, torch.device("cpu"), 0.1, time.monotonic())


def test_results_are_packed_while_the_grid_runs(tmp_path, monkeypatch):
    """The command writes a result and waits for the archive."""
    script = f"""
import pathlib, sys, time
folder = pathlib.Path({str(tmp_path)!r})
run = folder / "runs" / "-".join(sys.argv[1:])
run.mkdir(parents=True)
(run / "result.json").write_text("{{}}")
for _ in range(600):
    if (folder / "results.tar.gz").exists():
        sys.exit(0)
    time.sleep(0.1)
sys.exit(2)
"""
    monkeypatch.setattr("bench.gpu.grid.lprime_run", lambda *_: [sys.executable, "-c", script])
    monkeypatch.setattr("bench.gpu.grid.PACK_EVERY_S", 0.2)
    grid = run_grid("quick", (["nope"], ["parity"], [0, 1]), 1, torch.device("cpu"), math.inf, tmp_path)
    assert (grid.done, grid.failed, grid.asked) == (1, 0, 2)


def test_a_killed_command_leaves_no_run_behind(tmp_path):
    script = f"""
import pathlib, subprocess, torch
from bench.gpu.grid import lprime_run
subprocess.run([*lprime_run("quick", 1, torch.device("cpu"), pathlib.Path({str(tmp_path)!r})), "--task=copying"])
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        while not list(tmp_path.rglob("heartbeat.json")) and process.poll() is None:
            time.sleep(0.1)
        process.kill()
        process.stdout.read()  # until the last process that can write to it has ended
    assert list(tmp_path.rglob("checkpoint.*")) and not list(tmp_path.rglob("result.json"))


def test_a_grid_out_of_time_is_terminated_and_may_save(tmp_path, monkeypatch):
    script = f"""
import pathlib, signal, sys
def save(*_):
    pathlib.Path({str(tmp_path)!r}, "saved").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path({str(tmp_path)!r}, "started").touch()
signal.pause()
"""
    monkeypatch.setattr("bench.gpu.grid.lprime_run", lambda *_: [sys.executable, "-c", script])
    monkeypatch.setattr("bench.gpu.grid.STOP_S", 30)

    def time_over(*_):
        """Time passes only once the command has started, so that the test depends on no clock."""
        return math.inf if (tmp_path / "started").exists() else 0.0

    monkeypatch.setattr("bench.gpu.grid.time", SimpleNamespace(monotonic=time_over))
    monkeypatch.setattr("bench.gpu.grid.PACK_EVERY_S", 0.2)
    monkeypatch.setattr("bench.gpu.grid.Grid", lambda **fields: fields)  # seconds are not finite here
    grid = run_grid("quick", (["nope"], ["parity"], [0, 1]), 1, torch.device("cpu"), 100.0, tmp_path)
    assert (tmp_path / "saved").exists() and (grid["done"], grid["asked"]) == (0, 2)


def test_the_multi_process_service_may_keep_its_output_open(tmp_path, monkeypatch):
    control = tmp_path / "nvidia-cuda-mps-control"
    answer = f"tee -a {tmp_path}/said | grep -q list && cat {tmp_path}/servers"
    control.write_text(f'#!/bin/sh\nif [ "$1" = -d ]; then sleep 30 & else {answer}; fi\n')
    control.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr("bench.gpu.mps.STOP_S", 10)
    (tmp_path / "servers").write_text("4711\n")
    with multi_process_service(str(tmp_path), True) as environment:
        assert all(os.path.isdir(folder) for folder in environment.values())
    assert (tmp_path / "said").read_text() == "get_server_list\nquit\n"
    (tmp_path / "servers").write_text("")
    (tmp_path / "again").mkdir()
    with pytest.raises(InputError, match="has no server"), multi_process_service(str(tmp_path / "again"), True):
        pass


def test_a_library_model_that_cannot_be_trained_is_left_out(monkeypatch):
    train = LibraryTraining.train

    def failing(self, examples):
        if self.model.encoding == "alibi":
            raise RuntimeError("no kernel")
        return train(self, examples)

    monkeypatch.setattr(LibraryTraining, "train", failing)
    measured = measure_steps("small", "parity", torch.device("cpu"), Budget(0.0, 1), math.inf)
    assert measured.left_out and set(measured.left_out.values()) == {"RuntimeError: no kernel"}
    assert {(s.encoding, s.who) for s in measured.steps} >= {(name, "lprime") for name in ("nope", "rope", "alibi", "t5")}
    assert f"- steps small, version 2 parity, {next(iter(measured.left_out))}: RuntimeError: no kernel" in render([measured])


def test_a_command_that_fails_or_takes_too_long_is_one_line():
    with pytest.raises(InputError, match="lprime run ended with 1: the reason"):
        run_to_end([sys.executable, "-c", "print('the reason'); raise SystemExit(1)"], 60)
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(99)'])"
    with pytest.raises(TimeoutError, match="takes longer than 1 s"):  # its children hold the pipe
        run_to_end([sys.executable, "-c", script], 1)


def test_the_archive_has_failures_too(tmp_path):
    for name in ("a/result.json", "b/failure.json", "b/checkpoint.pt"):
        (tmp_path / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "runs" / name).write_text("{}")
    assert pack_results(tmp_path / "runs", tmp_path / "results.tar.gz") == (1, 1)
    with tarfile.open(tmp_path / "results.tar.gz") as packed:
        assert packed.getnames() == ["a/result.json", "b/failure.json"]


def test_a_report_that_a_new_start_deletes_while_the_archive_is_written(tmp_path, monkeypatch):
    (tmp_path / "result.json").write_text("{}")
    rglob = Path.rglob
    monkeypatch.setattr(
        Path, "rglob", lambda self, name: [*rglob(self, name), *[self / "gone" / name] * (name == "failure.json")]
    )
    pack_results(tmp_path, tmp_path / "results.tar.gz")
    with tarfile.open(tmp_path / "results.tar.gz") as packed:
        assert packed.getnames() == ["result.json"]


def test_both_devices_draw_the_same_numbers():
    def drawn(device):
        return torch.randint(100, (8,), generator=torch.Generator().manual_seed(3), device=device)

    with DrawOnCPU():
        elsewhere, here = drawn("meta"), drawn("cpu")
    assert elsewhere.device.type == "meta" and here.tolist() == drawn("cpu").tolist()


def test_a_library_that_is_missing_leaves_the_other_and_ours(monkeypatch):
    monkeypatch.setitem(sys.modules, "x_transformers", None)
    measured = measure_steps("small", "parity", torch.device("cpu"), Budget(0.0, 1), math.inf)
    assert list(measured.left_out) == ["x-transformers"]
    assert {s.who for s in measured.steps} == {"lprime", "GPT-2", "Llama", "GPT-NeoX", "MPT"}
    late = measure_steps("small", "parity", torch.device("cpu"), Budget(0.0, 1), time.monotonic() - 1)
    assert {s.who for s in late.steps} == {"lprime"} and "TimeoutError: no time left" in late.left_out.values()


def test_a_failure_is_shown_until_the_same_is_measured_later():
    """A measurement of several counts is one attempt."""
    failure = Failure(key="packed quick, version 1 mps", error="no server")
    without, with_mps = (
        Packed(key=f"quick 2{mps}", suite="quick, version 1", at_once=2, mps=mps, steps_per_s=1, runs_per_hour=1)
        for mps in (False, True)
    )
    for found, shown in (([failure, without], True), ([with_mps, failure], True), ([failure, with_mps], False)):
        assert ("no server" in render(found)) == shown
