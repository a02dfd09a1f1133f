"""Runs: the grid in order, states read from files, one process at a time."""

import errno
import fcntl
import multiprocessing
import os
import time

import pytest
from support import suite_dict

from bench.runs.pool import local_pool
from bench.runs.run import Run, plan_runs
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


def test_unknown_tasks_and_negative_seeds_are_errors(suite):
    with pytest.raises(InputError, match=r"unknown task of suite tiny 'parit'; did you mean 'parity'\?"):
        plan_runs(suite, tasks=["parit"])
    with pytest.raises(InputError, match="a seed must be 0 or more, got -1"):
        plan_runs(suite, seeds=[-1])


@pytest.mark.parametrize(
    ("device", "gpus", "cores", "workers"), [("cpu", 2, 16, 16), ("auto", 0, 16, 16), ("auto", 2, 16, 8), ("cuda", 1, 3, 3)]
)
def test_workers_by_default_are_one_a_core_or_four_a_gpu(monkeypatch, device, gpus, cores, workers):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)  # as on macOS
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    pool = local_pool(None, device)
    assert (pool.workers, len(pool.gpus)) == (workers, 0 if device == "cpu" else gpus)
    assert local_pool(5, device).workers == 5


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


def hold_lock(folder, ready):
    with lock_run(folder):
        ready.set()
        time.sleep(30)


def test_a_lock_excludes_other_processes_and_is_released_when_its_process_is_killed(tmp_path, suite):
    run = plan_runs(suite)[0]
    folder = run.folder(tmp_path)
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    process = context.Process(target=hold_lock, args=(folder, ready))
    process.start()
    try:
        assert ready.wait(30)
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
