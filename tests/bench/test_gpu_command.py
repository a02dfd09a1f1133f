"""``python -m bench.gpu`` without a GPU: the smoke run, which uses the CPU as if it were one, and its file."""

import json
import math
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from bench.gpu import __main__ as command
from bench.gpu.calibration import run_to_end
from bench.gpu.grid import pack_results, run_grid
from bench.gpu.measurements import Failure, Packed, append, read_measurements
from bench.gpu.mps import multi_process_service
from bench.gpu.packed import measure_packed
from bench.gpu.page import render
from bench.gpu.steps import measure_steps
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
