"""Sealed runs: the same numbers as other runs, no answer before it is predicted, nothing outside of the sandbox."""

import os
import socket
import subprocess
from multiprocessing import Pipe

import numpy as np
import pytest
import torch
from cheat_files import sealed_code
from support import suite_dict

import tasks
from bench.plugins.registry import get_encoding
from bench.runs.run import Run
from bench.runs.run_one import run_one
from bench.runs.run_training import build_model
from bench.sealed import process, sandbox
from bench.sealed.judge import SealedModel, reveal
from bench.sealed.process import Channel, SealedError
from bench.sealed.run import run_sealed
from bench.sealed.sandbox import Code, start_sandboxed
from bench.sealed.served_model import ServedModel
from bench.suites.suite import Suite, validated
from bench.training.batches import as_batch
from tasks import PAD

SUITE = validated(Suite, suite_dict(), "tiny")
RUN = Run(SUITE, "copying", "alibi", 0)
ADDITION = {"task": "addition", "variant": "reversed", "train_length": 4}


@pytest.mark.sandbox
@pytest.mark.parametrize("encoding", ["finetuned(rope)", "randomised(rope)"])
def test_a_sealed_run_has_the_result_of_any_other(encoding, tmp_path):
    run = Run(SUITE, "copying", encoding, 0)
    code = sealed_code(encoding)
    found, expected = run_sealed(run, code), run_one(run, tmp_path, "cpu")
    assert found.sealed and not expected.sealed and found.timings.step_ms == 0
    for ours, theirs in zip(found.scores, expected.scores, strict=True):
        assert ours.nll == pytest.approx(theirs.nll, rel=1e-5)
        assert ours.model_copy(update={"nll": theirs.nll}) == theirs
    same = {"scores", "sealed", "timings", "started", "finished", "trained_as", "weights"}
    assert found.model_dump(exclude=same) == expected.model_dump(exclude=same)


class Local:
    """A model in this process with the requests of a sealed one."""

    def __init__(self, run: Run = RUN):
        self.served = ServedModel.__new__(ServedModel)
        self.served.cls, self.served.model = get_encoding(run.encoding), build_model(run)
        self.shown, self.task = [], run.suite.make_task(run.task)
        self.symbols = len(self.task.vocabulary)

    def logits(self, tokens, cells, announced_length, seed):
        self.shown.append((tokens.copy(), cells.copy()))
        values = {"announced_length": announced_length, "generator": seed, "in_stage": False}
        return torch.from_numpy(self.served.logits({"tokens": tokens, "cells": cells}, values).copy())


def test_no_answer_is_shown_before_it_is_predicted():
    model = Local(Run(validated(Suite, suite_dict(tasks=[ADDITION]), "t"), "addition", "alibi", 0))
    examples = tasks.test_set(model.task, 5, 40, 0)
    assert len(set(examples.sizes)) > 1, "so that examples end at different steps"
    batch = as_batch(examples)
    logits = reveal(model, batch, 40, 0)
    with torch.no_grad():
        in_view = model.served.model.logits(model.served.model.target_states(batch, 40))
    torch.testing.assert_close(logits, in_view, atol=1e-4, rtol=1e-4)
    for place, (shown, cells) in enumerate(model.shown):
        known = np.minimum(examples.answer_start + place, examples.sizes - 1)
        assert (cells == np.arange(40) * shown.shape[1] + known - 1).all()
        hidden = np.arange(shown.shape[1]) >= known[:, None]
        assert (shown[hidden] == PAD).all() and (shown[~hidden] == examples.tokens[:, : shown.shape[1]][~hidden]).all()


ESCAPES = r"""
import ctypes, os, socket, sys
found, libc, here = [], ctypes.CDLL(None), os.path.dirname(__file__)
def attempt(name, action):
    try: action(); found.append(name)
    except Exception: pass
attempt("network", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 1))
attempt("home", lambda: os.listdir(os.path.expanduser("~")) and 1 / bool(os.listdir(os.path.expanduser("~"))))
attempt("write", lambda: open(os.path.join(here, "written"), "w"))
MS_REMOUNT_BIND, CLONE_NEWUSER = 32 | 4096, 0x10000000
attempt("remount", lambda: 1 / (libc.mount(None, here.encode(), None, MS_REMOUNT_BIND, None) == 0))
attempt("capabilities", lambda: 1 / ("CapEff:\t0000000000000000" not in open("/proc/self/status").read()))
if os.fork() == 0:
    os._exit(libc.unshare(CLONE_NEWUSER) == 0)
attempt("user namespace", lambda: 1 / os.wait()[1])
attempt("environment", lambda: os.environ["SECRET"])
attempt("kill", lambda: os.kill(int(sys.argv[3]), 0))
attempt("secret file", lambda: open(sys.argv[4]).read())
if os.fork() == 0:
    import time; time.sleep(60)
os.write(int(sys.argv[1]), (" ".join(found) or "nothing").encode())
"""


@pytest.mark.sandbox
def test_the_sandbox_hides_network_files_environment_and_processes(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    code, secret = tmp_path / "code", tmp_path / "secret"
    for folder in (tmp_path, code):  # as the folder of a script is in sys.path
        monkeypatch.syspath_prepend(str(folder))
    code.mkdir()
    name = f"escapes_{os.getpid()}"
    (code / f"{name}.py").write_text(ESCAPES)
    secret.write_text("x")
    ours, theirs = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as server, ours, theirs:
        arguments = [name, str(theirs.fileno()), str(server.getsockname()[1]), str(os.getpid()), str(secret)]
        started = start_sandboxed(arguments, Code(name, [code]), theirs.fileno(), None)
        theirs.close()
        assert ours.recv(1000) == b"nothing"
        assert started.wait(60) == 0, "its daemon has ended with it"
    assert not subprocess.run(["pgrep", "-f", f"{name} "], capture_output=True).stdout


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("line", "limit", "message"),
    [
        ("import lprime; lprime.Encoding; raise OSError('no')", 60, "OSError: no"),
        ("import sys; sys.stderr.write('x' * 2**18); raise OSError('no')", 60, "OSError: no"),
        ("while True: pass", 5, "still running after 5 s"),
        ("import os; os._exit(7)", 60, "exit code 7"),
    ],
)
def test_code_that_fails_ends_in_one_line(tmp_path, line, limit, message):
    path = tmp_path / "broken.py"
    path.write_text(f"{line}\n")
    with (
        pytest.raises(SealedError, match=message),
        SealedModel(RUN, Code(str(path), [path], seconds=limit)),
    ):
        pass


@pytest.mark.parametrize(
    ("arrays", "changes", "message"),
    [
        ({"encoding.table": np.arange(3)}, {}, r"unexpected parameter 'encoding\.table'; expected float32"),
        ({"head.weight": np.zeros(3, np.float32)}, {}, r"unexpected parameter 'head\.weight'"),
        ({}, {"ranking": "best"}, r"declares something impossible \(ranking"),
        ({}, {"stage": {"share": 0.02, "longer": True}}, "expected more than 0, at most 0.01"),
        ({}, {"stage": {"share": 0.1, "longer": False}}, "rules of submissions do not allow"),
    ],
)
def test_what_the_judge_does_not_accept(arrays, changes, message, tmp_path):
    model = SealedModel.__new__(SealedModel)
    declared = {"name": "x", "ranking": "longer", "random": False, "stage": None, "parameters": []}
    model.code = Code("x", readable=[tmp_path])
    with pytest.raises(SealedError, match=message):
        model.take(RUN, arrays, declared | changes)


def test_a_process_that_reads_nothing_has_the_same_limit(monkeypatch):
    def sleep(arguments, code, descriptor, stderr):
        return subprocess.Popen(["sleep", "60"], pass_fds=[descriptor])

    monkeypatch.setattr(process, "start_sandboxed", sleep)
    with process.SealedProcess("x", Code("x", seconds=0.2)) as sealed, pytest.raises(SealedError, match="still running"):
        sealed.send("weights", {"w": np.zeros(2**20)})


def test_messages_are_read_as_untrusted_data(monkeypatch):
    ours, theirs = Pipe()
    channel = Channel(ours)
    with ours, theirs:
        Channel(theirs).send("kind", {"a": np.arange(3)}, value=1)
        kind, arrays, values = channel.receive()
        assert (kind, arrays["a"].tolist(), values) == ("kind", [0, 1, 2], {"value": 1})
        for parts in ([b"x" * 16], [b"[" * 100_000], [b"[]"], [b"{}"], [b'{"kind": "x"}', b"\x10" + b"\0" * 7 + b"x" * 16]):
            for part in parts:
                theirs.send_bytes(part)
            with pytest.raises(SealedError, match="not a message"):
                channel.receive()
        monkeypatch.setattr(process, "MOST_BYTES", 100)
        theirs.send_bytes(b" " * 101)
        with pytest.raises(SealedError, match="not a message"):
            channel.receive()
    ours, theirs = Pipe()
    theirs.close()
    with pytest.raises(SealedError, match="its process ended"):
        Channel(ours).receive()


def test_without_bubblewrap_nothing_runs(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sandbox, "sandbox_fault", sandbox.sandbox_fault.__wrapped__)
    with pytest.raises(tasks.InputError, match="apt-get install bubblewrap"):
        start_sandboxed(["x"], Code("x"), 0, None)
