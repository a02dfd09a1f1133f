"""Runs: the grid in order, states read from files, one process at a time, and the machine that they run on."""

import errno
import fcntl
import math
import multiprocessing
import os
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support import git, suite_dict

from bench.encodings import Encoding
from bench.encodings.nope import NoPE
from bench.files import try_lock
from bench.runs import run_lock
from bench.runs.devices import cpu_quota, current_commit
from bench.runs.pool import local_pool
from bench.runs.run import Run, plan_runs
from bench.runs.run_lock import LockedElsewhere, is_locked, lock_run
from bench.runs.run_one import run_one
from bench.suites.suite import Suite, validated
from bench.training.train import train
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
    scores = result.scores
    losses, right, accuracy, nll = NUMBERS[encoding]
    assert [dict(result.loss)[step] for step in (5, 40, 100)] == pytest.approx(losses, abs=1e-4)
    found = [score.count * score.exact for score in scores]
    assert found == pytest.approx(right, abs=1.01), "rounding may decide a close choice"
    assert [score.token for score in scores] == pytest.approx(accuracy, abs=0.005)
    assert [scores[0].nll, scores[-1].nll] == pytest.approx(nll, abs=2e-4)


def test_unknown_tasks_and_negative_seeds_are_errors(suite):
    with pytest.raises(InputError, match=r"unknown task of suite tiny 'parit'; did you mean 'parity'\?"):
        plan_runs(suite, tasks=["parit"])
    for seed in (-1, True, 1.5, 2**31):
        with pytest.raises(InputError, match=f"a seed must be a whole number from 0 to 2147483647, got {seed}"):
            plan_runs(suite, seeds=[seed])
    sweeping = suite.model_copy(update={"learning_rates": [0.1]})
    for rate in (0.0, -1.0, float("nan"), float("inf"), 0.0010000000001):
        with pytest.raises(InputError, match=f"a learning rate must be a positive number of at most six digits, got {rate}"):
            plan_runs(sweeping, rates=[rate])


def test_states_are_read_from_files(tmp_path, suite):
    run = plan_runs(suite)[0]
    folder = run.folder(tmp_path)
    assert run.standing(tmp_path).state == "missing"
    with lock_run(folder):
        (folder / "checkpoint.safetensors").write_bytes(b"")
    assert run.standing(tmp_path).state == "paused"
    run.fail(tmp_path, "it broke", "Traceback …")
    assert run.standing(tmp_path).state == "failed"
    assert run.failure(tmp_path).error == "it broke"
    (folder / "failure.json").write_text("{")
    assert run.standing(tmp_path).state == "unreadable"
    with pytest.raises(InputError, match="not a failure report"):
        run.failure(tmp_path)


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
        assert run.standing(tmp_path).state == "running"
        with pytest.raises(LockedElsewhere), lock_run(folder):
            pass
    finally:
        process.kill()
        process.join()
    assert not is_locked(folder)
    with lock_run(folder):
        assert is_locked(folder)


def test_no_two_hold_a_lock_whose_file_was_deleted_while_one_waited(tmp_path, monkeypatch):
    """The first holder deletes the file at its end, when the second has already opened it."""
    first = ExitStack()
    first.enter_context(lock_run(tmp_path))

    def first_ends(file, wait_s):
        first.close()
        return try_lock(file, wait_s)

    with monkeypatch.context() as patch, pytest.raises(LockedElsewhere):
        patch.setattr(run_lock, "try_lock", first_ends)
        with lock_run(tmp_path):
            pass
    with lock_run(tmp_path), pytest.raises(LockedElsewhere), lock_run(tmp_path):
        pass


def test_a_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(InputError, match=r"cannot lock .*run: No locks available"), lock_run(tmp_path / "run"):
        pass


def test_what_no_result_can_hold_fails_before_the_training(tmp_path, suite, monkeypatch):
    def init(self, setup, *, dtype=torch.float32):
        Encoding.__init__(self, setup)

    run = plan_runs(suite, ["nope"])[0]
    for field, value, message in (
        ("info", replace(NoPE.info, title=1), "info of nope: title: Input should be a valid string"),
        ("__init__", init, "info of nope: settings.dtype: input was not a valid JSON value"),
    ):
        with monkeypatch.context() as patch, pytest.raises(InputError, match=message):
            patch.setattr(NoPE, field, value)
            run_one(run, tmp_path, "cpu")
        assert run.standing(tmp_path).state == "missing", "nothing was trained"


# --- the machine


@pytest.mark.parametrize(
    ("device", "gpus", "cores", "workers"), [("cpu", 2, 16, 16), ("auto", 0, 16, 16), ("auto", 2, 16, 4), ("cuda", 2, 3, 3)]
)
def test_workers_by_default_are_one_a_core_or_two_a_gpu(monkeypatch, device, gpus, cores, workers):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)  # as on macOS
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr("bench.runs.devices.cpu_quota", lambda: math.inf)
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c")
    pool = local_pool(None, device)
    assert (pool.workers, pool.gpus) == (workers, [] if device == "cpu" else ["GPU-a", "GPU-b"][:gpus])
    assert local_pool(5, device).workers == 5


@pytest.mark.parametrize(
    ("quotas", "cpus"),
    [
        ({"cpu.max": "150000 100000", "a/b/cpu.max": "max 100000"}, 1.5),
        ({"cpu.max": "400000 100000", "a/b/cpu.max": "50000 50000"}, 1),
        ({"cpu/c/cpu.cfs_quota_us": "150000", "cpu/c/cpu.cfs_period_us": "100000"}, 1.5),
        ({}, math.inf),
    ],
)
def test_the_smallest_quota_of_the_cgroup_and_its_parents_counts(tmp_path, monkeypatch, quotas, cpus):
    monkeypatch.setattr("bench.runs.devices.Path", lambda path: tmp_path / path[1:])
    files = {"proc/self/cgroup": "4:memory:/m\n2:cpu,cpuacct:/c\n0::/a/b\n"}
    for folder, text in (files | {f"sys/fs/cgroup/{name}": text for name, text in quotas.items()}).items():
        (tmp_path / folder).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / folder).write_text(text)
    assert cpu_quota() == cpus


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("bench/__init__.py", "tasks/__init__.py", "leaderboard/README.md", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("as committed\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "all")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "dirty"),
    [
        ("bench/encodings/mine.py", "-dirty"),
        ("pyproject.toml", "-dirty"),
        ("leaderboard/README.md", ""),
        ("runs/x.json", ""),
    ],
)
def test_changed_and_new_code_is_dirty_and_new_results_are_not(checkout, name, dirty, monkeypatch):
    head = git(checkout, "rev-parse", "HEAD")
    assert len(head) == 40 and current_commit.__wrapped__(checkout) == head
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_text("changed\n")
    assert current_commit.__wrapped__(checkout) == head + dirty
    monkeypatch.setenv("GIT_DIR", str(checkout / "absent"))  # as in a git hook
    assert current_commit.__wrapped__(checkout) == head + dirty


def test_without_git_or_a_checkout_there_is_no_commit(checkout, tmp_path_factory, monkeypatch):
    installed = checkout / ".venv/lib/site-packages"
    (installed / "bench").mkdir(parents=True)
    (installed / "bench/__init__.py").write_text("")
    assert current_commit.__wrapped__(installed) is None, "a package inside somebody's repository"
    assert current_commit.__wrapped__(tmp_path_factory.mktemp("other")) is None
    monkeypatch.setenv("PATH", "")
    assert current_commit.__wrapped__(checkout) is None


def test_a_result_contains_commit_and_cpu_share_which_waiting_lowers(tmp_path, suite, monkeypatch):
    def slow_train(*arguments):
        start = time.perf_counter()
        train(*arguments)
        time.sleep(3 * (time.perf_counter() - start))

    run = plan_runs(suite)[0]
    result = run_one(run, tmp_path / "one", "cpu")
    assert result.commit == current_commit() and 0 < result.timings.cpu_share <= 1.1
    monkeypatch.setattr("bench.runs.run_training.train", slow_train)
    timings = run_one(run, tmp_path / "other", "cpu").timings
    assert 0 < timings.cpu_share < 0.3
