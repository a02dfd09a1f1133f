"""Which commit ran, and how busy the machine was: what a result says of its own making."""

import subprocess
import time
from pathlib import Path

import pytest
from support import suite_dict

from bench import commit as at_work
from bench import work
from bench.commit import commit_of
from bench.results import Result, Timings
from bench.runs import plan
from bench.suite import Suite, validated
from bench.work import execute


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *identity, *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("bench/__init__.py", "tasks/__init__.py", "leaderboard/README.md", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("as committed\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "all")
    return tmp_path


def test_a_clean_checkout_is_its_commit(checkout):
    head = git(checkout, "rev-parse", "HEAD")
    assert len(head) == 40 and commit_of(checkout) == head


@pytest.mark.parametrize("name", ["bench/__init__.py", "bench/encodings/mine.py", "tasks/new.py", "pyproject.toml"])
def test_changed_and_new_code_is_dirty(checkout, name):
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("changed\n")
    assert commit_of(checkout) == git(checkout, "rev-parse", "HEAD") + "-dirty"


@pytest.mark.parametrize("name", ["leaderboard/README.md", "leaderboard/results/small/rope.jsonl", "runs/x.json"])
def test_results_that_grow_while_others_run_are_no_dirt(checkout, name):
    (checkout / name).parent.mkdir(parents=True, exist_ok=True)
    (checkout / name).write_text("changed\n")
    assert commit_of(checkout) == git(checkout, "rev-parse", "HEAD")


def test_no_repository_no_commit(tmp_path):
    assert commit_of(tmp_path) is None
    assert commit_of(tmp_path / "absent") is None


def test_a_package_that_lies_in_somebodys_repository_is_not_of_it(checkout):
    installed = checkout / ".venv/lib/site-packages"
    (installed / "bench").mkdir(parents=True)
    (installed / "bench/__init__.py").write_text("")
    assert commit_of(installed) is None


def test_a_hooks_environment_does_not_point_elsewhere(checkout, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("other")))
    assert commit_of(checkout) is not None


def test_without_git_there_is_no_commit(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit_of(checkout) is None


def test_a_run_says_how_much_of_a_core_it_had_and_which_commit_ran(tmp_path):
    run = plan(validated(Suite, suite_dict(), "suite"))[0]
    result = execute(run, tmp_path, "cpu")
    assert result.timings.cpu_share is not None and 0 < result.timings.cpu_share <= 1.1
    assert result.commit == at_work.commit()


def test_time_that_others_had_lowers_the_share(tmp_path, monkeypatch):
    def disturbed(*arguments):
        start = time.perf_counter()
        train(*arguments)
        time.sleep(3 * (time.perf_counter() - start))

    train = work.train
    monkeypatch.setattr(work, "train", disturbed)
    result = work.execute(plan(validated(Suite, suite_dict(), "suite"))[0], tmp_path, "cpu")
    assert 0 < result.timings.cpu_share < 0.3 and result.timings.busy


@pytest.mark.parametrize(("share", "busy"), [(None, False), (0.89, True), (0.9, False), (1.0, False)])
def test_a_machine_is_busy_below_nine_tenths(share, busy):
    assert Timings(step_ms=1, train_s=1, evaluate_s=1, total_s=1, cpu_share=share).busy is busy


def test_results_without_the_newer_fields_are_read_as_before(tmp_path):
    content = execute(plan(validated(Suite, suite_dict(), "suite"))[0], tmp_path, "cpu").model_dump()
    del content["commit"], content["timings"]["cpu_share"]
    read = Result.model_validate(content)
    assert read.commit is None and read.timings.cpu_share is None and not read.timings.busy
