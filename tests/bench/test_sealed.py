"""Sealed runs: the same numbers as other runs, no answer before it is predicted, nothing outside of the sandbox."""

import os
import socket
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.numpy import save
from support import suite_dict

import tasks
from bench.plugins.registry import get_encoding
from bench.runs.run import Run
from bench.runs.run_one import run_one
from bench.runs.run_training import build_model
from bench.sealed import audit as audits
from bench.sealed import process, sandbox
from bench.sealed.channel import Channel, ChannelError
from bench.sealed.child import ServedModel
from bench.sealed.evaluate import reveal
from bench.sealed.judge import SealedModel
from bench.sealed.process import Code, SealedError
from bench.sealed.run import run_sealed
from bench.sealed.sandbox import start_sandboxed
from bench.suites.suite import Suite, validated
from tasks import PAD

SUITE = validated(Suite, suite_dict(), "tiny")


@pytest.mark.sandbox
@pytest.mark.parametrize("encoding", ["finetuned(rope)", "randomised(rope)", "asentmax"])
def test_a_sealed_run_has_the_numbers_of_any_other(encoding, tmp_path):
    run = Run(SUITE, "copying", encoding, 0)
    found, expected = run_sealed(run, Code(encoding)), run_one(run, tmp_path, "cpu")
    for name in ("loss", "steps", "status", "longest_seen", "parameters"):
        assert getattr(found, name) == getattr(expected, name), name
    for ours, theirs in zip(found.scores, expected.scores, strict=True):
        assert ours.nll == pytest.approx(theirs.nll, rel=1e-5)
        assert ours.model_copy(update={"nll": theirs.nll}) == theirs
    assert found.audit == []


class Local:
    """A model in this process with the requests of a sealed one."""

    def __init__(self, encoding: str = "alibi", other_data: bool = False):
        run = Run(SUITE, "copying", encoding, 0)
        self.served = ServedModel.__new__(ServedModel)
        self.served.cls, self.served.model = get_encoding(encoding), build_model(run)
        self.weights = dict(self.served.model.named_parameters())
        self.encoding = SimpleNamespace(stage=None, info=SimpleNamespace(random=False))
        self.shown, self.other_data, self.task = [], other_data, SUITE.make_task("copying")

    def push_weights(self, weights=None):
        self.served.load({name: p.detach().numpy() for name, p in (weights or self.weights).items()})

    def logits(self, tokens, sizes, announced_length, generator, symbols):
        self.shown.append((tokens.copy(), sizes.copy()))
        values = {"announced_length": announced_length, "generator": generator, "before_stage": False}
        return torch.from_numpy(self.served.logits({"tokens": tokens, "sizes": sizes}, values).copy())

    def gradients(self, examples, announced_length):
        if self.other_data:
            examples = tasks.train_batch(self.task, self.task.longest, len(examples), 99, 0)
        values = {"announced_length": announced_length, "generator": 0, "in_stage": False}
        arrays = self.served.gradients(vars(examples), values)
        for name, p in self.weights.items():
            p.grad = torch.from_numpy(arrays[name].copy()) if name in arrays else None


def test_no_answer_is_shown_before_it_is_predicted():
    model, examples = Local(), tasks.test_set(tasks.get("addition", "reversed", 8), 5, 40, 0)
    model.served.model = build_model(
        Run(
            validated(Suite, suite_dict(tasks=[{"task": "addition", "variant": "reversed", "train_length": 4}]), "t"),
            "addition",
            "nope",
            0,
        )
    )
    logits, truth, example_of = reveal(model, examples, 40, 0, 15)
    order = np.argsort(examples.sizes, kind="stable")
    tokens, starts, sizes = examples.tokens[order], examples.answer_start[order], examples.sizes[order]
    assert len(logits) == len(example_of) == int(examples.targets.sum())
    assert (truth.numpy() == [tokens[row, at] for row in range(len(tokens)) for at in range(starts[row], sizes[row])]).all()
    for place, (shown, known) in enumerate(model.shown):
        assert (known == np.minimum(starts + place, sizes - 1)).all()
        hidden = np.arange(shown.shape[1]) >= known[:, None]
        assert (shown[hidden] == PAD).all() and (shown[~hidden] == tokens[:, : shown.shape[1]][~hidden]).all()


def test_gradients_of_other_data_are_found():
    faults = {}
    for other_data in (False, True):
        model, audit = Local(other_data=other_data), audits.Audit(4, 0, np.random.default_rng(0))
        for step in range(4):
            examples = tasks.train_batch(model.task, 4, 32, 0, step)
            model.gradients(examples, 11)
            audit.record(step, model, examples, 11)
        faults[other_data] = audit.faults(model, len(model.task.vocabulary))
    assert faults[False] == [] and len(faults[True]) >= 3, faults
    logits = model.logits
    model.logits = lambda *request: logits(*request) * torch.nan
    assert len(audit.faults(model, len(model.task.vocabulary))) == 4, "a loss that is not a number is a fault"


ESCAPES = """
import os, socket, sys
found = []
def attempt(name, action):
    try: action(); found.append(name)
    except Exception: pass
attempt("network", lambda: socket.create_connection(("127.0.0.1", int(sys.argv[2])), 1))
attempt("home", lambda: os.listdir(os.path.expanduser("~")) and 1 / bool(os.listdir(os.path.expanduser("~"))))
attempt("write", lambda: open(os.path.join(os.path.dirname(__file__), "written"), "w"))
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
    monkeypatch.syspath_prepend(str(tmp_path))  # the folder of a script is in sys.path
    code, secret = tmp_path / "code", tmp_path / "secret"
    code.mkdir()
    name = f"escapes_{os.getpid()}"
    (code / f"{name}.py").write_text(ESCAPES)
    secret.write_text("x")
    ours, theirs = socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as server, ours, theirs:
        arguments = [name, str(theirs.fileno()), str(server.getsockname()[1]), str(os.getpid()), str(secret)]
        started = start_sandboxed(arguments, [code], [str(code)], [theirs.fileno()])
        theirs.close()
        assert ours.recv(1000) == b"nothing", started.stderr.read()
        assert started.wait(60) == 0, "its daemon has ended with it"
    assert not subprocess.run(["pgrep", "-f", f"{name} "], capture_output=True).stdout


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("line", "limit", "message"),
    [
        ("raise OSError('no')", 60, "OSError: no"),
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
        SealedModel(Run(SUITE, "copying", "x", 0), Code(str(path), [path], seconds=limit)),
    ):
        pass


def test_only_parameters_that_can_be_trained_are_taken():
    with pytest.raises(SealedError, match=r"unexpected parameter 'encoding\.table'; expected float32"):
        SealedModel.take(SealedModel.__new__(SealedModel), Run(SUITE, "copying", "x", 0), {"encoding.table": np.arange(3)})


def test_a_process_that_reads_nothing_has_the_same_limit(monkeypatch):
    def sleep(arguments, readable, path, pass_fds, unsafe):
        return subprocess.Popen(["sleep", "60"], pass_fds=pass_fds, stderr=subprocess.PIPE)

    monkeypatch.setattr(process, "start_sandboxed", sleep)
    with process.SealedProcess("x", Code("x")) as sealed, pytest.raises(SealedError, match="too slow"):
        sealed.limit_time(0.2, "too slow")
        sealed.send("weights", {"w": np.zeros(2**20)})


def with_size(data):
    return len(data).to_bytes(8, "little") + data


def test_messages_are_read_as_untrusted_data():
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    with ours, theirs:
        Channel(theirs).send("kind", {"a": np.arange(3)}, value=1)
        kind, arrays, values = channel.receive(1)
        assert (kind, arrays["a"].tolist(), values) == ("kind", [0, 1, 2], {"value": 1})
        for data, message in [
            (b"\x10" + b"\0" * 7 + b"x" * 16, "not a message"),
            (b"\xff" * 8, "a message of"),
            (with_size(save({}, {"message": "[" * 100_000})), "not a message"),
            (b"", "no answer in time"),
        ]:
            theirs.sendall(data)
            with pytest.raises(ChannelError, match=message):
                channel.receive(60 if data else 0.1)
        theirs.close()
        with pytest.raises(ChannelError, match="its process ended"):
            channel.receive(1)


def test_without_bubblewrap_nothing_runs(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sandbox, "sandbox_fault", sandbox.sandbox_fault.__wrapped__)
    with pytest.raises(tasks.InputError, match="apt-get install bubblewrap"):
        start_sandboxed(["x"])
