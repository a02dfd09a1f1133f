"""Runs: the grid in order, states read from files, one process at a time."""

import errno
import fcntl
import multiprocessing
import os
import time
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from support import suite_dict

from bench.encodings import Encoding
from bench.encodings.nope import NoPE
from bench.files import try_lock
from bench.runs import run_lock
from bench.runs.devices import package_versions, visible_gpus
from bench.runs.pool import LocalPool, Worker, local_pool
from bench.runs.run import CHECKPOINT, RESULT, Run, plan_runs
from bench.runs.run_lock import LockedElsewhere, is_locked, lock_run
from bench.runs.run_one import run_one
from bench.suites.suite import Suite, validated
from tasks import InputError


@pytest.fixture
def suite() -> Suite:
    return validated(Suite, suite_dict(seeds=[0, 1]), "suite")


def test_runs_are_ordered_by_seed(suite):
    runs = plan_runs(suite)
    assert len(runs) == 2 * 2 * 2 == len(set(runs))
    assert [r.seed for r in runs] == [0] * 4 + [1] * 4
    assert [str(r) for r in plan_runs(suite, ["rope", "rope"], ["parity"], [7])] == ["parity rope seed 7"], "no duplicates"


NUMBERS = {
    "nope": ([2.99629, 1.65972, 1.35232], [2, 0, 0, 0], [0.44271, 0.25208, 0.19940, 0.15856], [1.28333, 2.27578]),
    "randomised(rope)": ([2.97719, 1.75112, 1.47280], [2, 0, 0, 0], [0.48958, 0.26458, 0.18452, 0.15856], [1.39837, 2.29220]),
}
"""Loss at steps 5, 40 and 100; right answers and token accuracy at lengths 2, 4, 6 and 8; loss at the first and last."""


@pytest.mark.parametrize("encoding", NUMBERS)
def test_runs_give_the_numbers_of_this_protocol(tmp_path, encoding):
    """Published results depend on them: a change requires a new ``PROTOCOL``, and these numbers pinned again."""
    model = {"layers": 1, "width": 32, "heads": 2, "mlp_width": 64}
    tasks = [{"task": "copying", "variant": "repeat", "train_length": 4}]
    changes = {"test_examples": 96, "recipe": {"steps": 100, "warmup_steps": 10}}
    suite = validated(Suite, suite_dict(model=model, tasks=tasks, **changes), "suite")
    result = run_one(Run(suite, "copying", encoding, 3), tmp_path, "cpu")
    scores = [*result.in_distribution, *result.out_of_distribution]
    losses, right, accuracy, nll = NUMBERS[encoding]
    assert [dict(result.loss)[step] for step in (5, 40, 100)] == pytest.approx(losses, abs=1e-4)
    assert [score.count * score.exact for score in scores] == pytest.approx(right, abs=1.01), (
        "rounding may decide a close choice"
    )
    assert [score.token for score in scores] == pytest.approx(accuracy, abs=0.005)
    assert [scores[0].nll, scores[-1].nll] == pytest.approx(nll, abs=2e-4)


def test_unknown_tasks_and_negative_seeds_are_errors(suite):
    with pytest.raises(InputError, match=r"unknown task of suite tiny 'parit'; did you mean 'parity'\?"):
        plan_runs(suite, tasks=["parit"])
    for seed in (-1, True, 1.5, 2**31):
        with pytest.raises(InputError, match=f"a seed must be a whole number from 0 to 2147483647, got {seed}"):
            plan_runs(suite, seeds=[seed])


@pytest.mark.parametrize(
    ("device", "gpus", "cores", "workers"), [("cpu", 2, 16, 16), ("auto", 0, 16, 16), ("auto", 2, 16, 4), ("cuda", 2, 3, 3)]
)
def test_workers_by_default_are_one_a_core_or_two_a_gpu(monkeypatch, device, gpus, cores, workers):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)  # as on macOS
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    pool = local_pool(None, device)
    assert (pool.workers, len(pool.gpus)) == (workers, 0 if device == "cpu" else gpus)
    assert local_pool(5, device).workers == 5


@pytest.mark.parametrize(
    ("variable", "count", "names"), [("", 2, "0 1"), ("3,5", 2, "3 5"), ("GPU-a,GPU-b,GPU-c", 2, "GPU-a GPU-b"), ("1", 0, "")]
)
def test_gpus_are_named_as_the_environment_names_them(monkeypatch, variable, count, names):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    assert visible_gpus() == names.split()


def test_gpus_by_uuid(tmp_path, monkeypatch):
    """As the Multi-Process Service needs them; ``nvidia-smi`` is a stand-in."""
    program = tmp_path / "nvidia-smi"
    program.write_text('#!/bin/sh\nfor last; do :; done\necho "$last" | tr , "\\n" | sed s/^/GPU-/\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert visible_gpus(by_uuid=True) == ["GPU-4", "GPU-6"]


def test_states_are_read_from_files(tmp_path, suite):
    run = plan_runs(suite)[0]
    folder = run.folder(tmp_path)
    assert run.state(tmp_path) == "missing"
    with lock_run(folder):
        (folder / "checkpoint.safetensors").write_bytes(b"")
    assert run.state(tmp_path) == "paused"
    run.fail(tmp_path, "it broke", "Traceback …")
    assert run.state(tmp_path) == "failed"
    assert run.failure(tmp_path).error == "it broke"
    (folder / "failure.json").write_text("{")
    with pytest.raises(InputError, match="not a failure report"):
        run.state(tmp_path)


def test_a_wrong_info_fails_before_the_training(tmp_path, suite, monkeypatch):
    run = plan_runs(suite, ["nope"])[0]
    monkeypatch.setattr(NoPE, "info", replace(NoPE.info, title=1))
    with pytest.raises(InputError, match="info of nope: title: Input should be a valid string"):
        run_one(run, tmp_path, "cpu")
    assert run.state(tmp_path) == "missing", "nothing was trained"


def test_a_setting_that_no_result_can_hold_fails_before_the_training(tmp_path, suite, monkeypatch):
    def init(self, setup, *, dtype=torch.float32):
        Encoding.__init__(self, setup)

    monkeypatch.setattr(NoPE, "__init__", init)
    run = plan_runs(suite, ["nope"])[0]
    with pytest.raises(InputError, match=r"settings of nope: Unable to serialize .*; expected numbers"):
        run_one(run, tmp_path, "cpu")
    assert run.state(tmp_path) == "missing", "nothing was trained"


def test_a_package_that_is_not_installed_has_no_version():
    assert package_versions("no-such-package")["no-such-package"] == "not installed"


def test_the_last_message_of_a_worker_that_has_ended_is_read(tmp_path, suite, monkeypatch):
    """Its end is all that the system reports: it had sent the message just before."""
    ours, theirs = multiprocessing.Pipe()
    process = SimpleNamespace(sentinel=object(), exitcode=1, is_alive=lambda: False)
    theirs.send(("ready", 0, ""))

    def report(*_, **__):
        if not theirs.poll():  # no run has been sent
            return [ours]
        theirs.send(("done", 0, ""))
        return [process.sentinel]

    monkeypatch.setattr("bench.runs.pool.wait", report)
    monkeypatch.setattr(LocalPool, "start_worker", lambda pool, _: pool.active.append(Worker(process, ours)))
    events = []
    LocalPool(workers=1, device="cpu").execute(plan_runs(suite, ["nope"], ["parity"], [0]), tmp_path, events.append)
    assert [event.kind for event in events] == ["started", "done"]


def hold_lock(folder, ready):
    with lock_run(folder):
        ready.set()
        time.sleep(600)


def test_a_lock_excludes_other_processes_and_is_released_when_its_process_is_killed(tmp_path, suite):
    run = plan_runs(suite)[0]
    folder = run.folder(tmp_path)
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=hold_lock, args=(folder, ready))
    process.start()
    try:
        assert ready.wait(300)
        assert is_locked(folder)
        assert run.state(tmp_path) == "running"
        with pytest.raises(LockedElsewhere), lock_run(folder):
            pass
    finally:
        process.kill()
        process.join()
    assert not is_locked(folder)
    with lock_run(folder):
        assert is_locked(folder)


def test_no_two_hold_a_lock_whose_file_was_deleted_while_one_waited(tmp_path, monkeypatch):
    """The first holder deletes the file at its end; the second has already opened it, and the third makes a new one."""
    first = ExitStack()
    first.enter_context(lock_run(tmp_path))

    def first_ends(file, wait_s):
        first.close()
        return try_lock(file, wait_s)

    monkeypatch.setattr(run_lock, "try_lock", first_ends)
    with lock_run(tmp_path), pytest.raises(LockedElsewhere), lock_run(tmp_path):
        pass


def test_runs_work_on_file_systems_without_locks(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    code = errno.ENOLCK
    with lock_run(tmp_path / "run"):
        assert not is_locked(tmp_path / "run")
    code = errno.EIO
    with pytest.raises(InputError, match=r"cannot lock .*run: Input/output error"), lock_run(tmp_path / "run"):
        pass


def test_results_of_another_fingerprint_or_run_are_refused_and_kept(tmp_path, suite):
    run = plan_runs(suite)[0]
    run_one(run, tmp_path, "cpu")
    other = Run(validated(Suite, suite_dict(version=2), "suite"), *run.key)
    with pytest.raises(InputError, match=r"fingerprint .* keep the two apart with another --out"):
        run_one(other, tmp_path, "cpu")
    assert run.state(tmp_path) == "done"
    seed_7 = Run(suite, run.task, run.encoding, 7)
    run.folder(tmp_path).rename(seed_7.folder(tmp_path))
    with pytest.raises(InputError, match=rf"holds the result of {run.path}, expected {seed_7.path}; move it"):
        run_one(seed_7, tmp_path, "cpu")


def test_a_finished_run_leaves_no_checkpoint(tmp_path, suite):
    run = Run(suite, "parity", "nope", 0)
    checkpoint = run.folder(tmp_path) / CHECKPOINT
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(b"damaged")  # set aside, in case that the run fails again
    run_one(run, tmp_path, "cpu")
    assert [path.name for path in checkpoint.parent.iterdir()] == [RESULT]


def test_a_pool_without_workers_is_refused():
    with pytest.raises(InputError, match="workers must be 1 or more, got 0"):
        local_pool(0, "cpu")
