"""The git commit and the CPU share that a result records."""

import time
from pathlib import Path

import pytest
from support import git, suite_dict
from synthetic_results import timings

from bench.result import Result
from bench.runs.devices import commit_of, current_commit
from bench.runs.run import Run, plan_runs
from bench.runs.run_one import run_one
from bench.suites.suite import Suite, validated
from bench.training.train import train


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("bench/__init__.py", "tasks/__init__.py", "leaderboard/README.md", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("as committed\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "all")
    return tmp_path


def test_commit_of_a_clean_checkout(checkout):
    head = git(checkout, "rev-parse", "HEAD")
    assert len(head) == 40 and commit_of(checkout) == head


@pytest.mark.parametrize("name", ["bench/__init__.py", "bench/encodings/mine.py", "tasks/new.py", "pyproject.toml"])
def test_changed_and_new_code_is_dirty(checkout, name):
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("changed\n")
    assert commit_of(checkout) == git(checkout, "rev-parse", "HEAD") + "-dirty"


@pytest.mark.parametrize("name", ["leaderboard/README.md", "leaderboard/results/small/rope.jsonl", "runs/x.json"])
def test_new_results_are_not_dirty(checkout, name):
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_text("changed\n")
    assert commit_of(checkout) == git(checkout, "rev-parse", "HEAD")


def test_without_a_repository_there_is_no_commit(tmp_path):
    assert commit_of(tmp_path) is None
    assert commit_of(tmp_path / "absent") is None


def test_an_installed_package_inside_a_repository_has_no_commit(checkout):
    installed = checkout / ".venv/lib/site-packages"
    (installed / "bench").mkdir(parents=True)
    (installed / "bench/__init__.py").write_text("")
    assert commit_of(installed) is None


def test_the_environment_of_a_git_hook_is_ignored(checkout, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("other")))
    assert commit_of(checkout) is not None


def test_without_git_there_is_no_commit(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit_of(checkout) is None


@pytest.fixture(scope="module")
def run() -> Run:
    return plan_runs(validated(Suite, suite_dict(), "suite"))[0]


@pytest.fixture(scope="module")
def result(run, tmp_path_factory) -> Result:
    return run_one(run, tmp_path_factory.mktemp("runs"), "cpu")


def test_a_result_contains_cpu_share_and_commit(result):
    assert result.timings.cpu_share is not None and 0 < result.timings.cpu_share <= 1.1
    assert result.commit == current_commit()


def test_waiting_lowers_the_cpu_share(run, tmp_path, monkeypatch):
    def slow_train(*arguments):
        start = time.perf_counter()
        train(*arguments)
        time.sleep(3 * (time.perf_counter() - start))

    monkeypatch.setattr("bench.runs.run_training.train", slow_train)
    timings = run_one(run, tmp_path, "cpu").timings
    assert 0 < timings.cpu_share < 0.3 and timings.busy


@pytest.mark.parametrize(("share", "busy"), [(None, False), (0.89, True), (0.9, False), (1.0, False)])
def test_a_machine_is_busy_below_nine_tenths(share, busy):
    assert timings(1, cpu_share=share).busy is busy


def test_results_without_newer_fields_can_be_read(result):
    content = result.model_dump()
    del content["commit"], content["trained_as"], content["weights"], content["timings"]["cpu_share"]
    for score in content["scores"]:
        del score["nll"], score["first_wrong"], score["token_chance"]
    read = Result.model_validate(content)
    assert (read.commit, read.trained_as, read.timings.cpu_share, read.timings.busy) == (None, "", None, False)
