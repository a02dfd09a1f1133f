"""``lprime compare`` and ``lprime export``, with valid and invalid arguments."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
from commands import printed, refused, run_command
from synthetic_results import full, store, suite

from leaderboard.results.store import publish as publish_runs


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """The working directory, with results of a suite ``tiny`` under ``runs``."""
    monkeypatch.chdir(tmp_path)
    of = suite()
    runs = full(of, {"rope": (1, 1, 0.9, 0.8), "nope": (1, 1, 0.5, 0.1)})
    store(tmp_path / "runs", runs)
    (tmp_path / "tiny.yaml").write_text(of.model_dump_json())
    return tmp_path


@pytest.mark.parametrize("command", ["compare rope nope --suite tiny", "export --to t.csv", "board"])
def test_a_damaged_result_is_named_and_skipped(place, command):
    path = place / "runs/tiny/sorting/nope/seed-1/result.json"
    path.unlink()
    path.mkdir()  # as unreadable as a file of another user
    shutil.copytree(path, place / "runs/other/sorting/nope/seed-1/result.json")  # nothing else of this suite
    code, out, err = run_command(*command.split())
    assert code == 1 and out and "seed-1/result.json: Is a directory; skipped\n" in err


def rows_of(table):
    """Lines without the last column, ``origin``."""
    return [line.rpartition(b",")[0] for line in table.splitlines()]


@pytest.mark.parametrize("command", ["compare rope nope --suite tiny", "export --to t.csv"])
def test_published_results_give_the_same_output_as_the_runs(place, command):
    wanted = printed(*command.split())
    table = (place / "t.csv").read_bytes() if "export" in command else b""
    publish_runs("tiny", place / "runs", place / "leaderboard")
    (place / "runs").rename(place / "board")  # nothing is read from there any more
    (place / "leaderboard").rename(place / "elsewhere")
    more = ["--force"] if "export" in command else []
    assert printed(*command.split(), "--published", "--board", "elsewhere", *more).splitlines()[0] == wanted.splitlines()[0]
    assert not table or sorted(rows_of((place / "t.csv").read_bytes())) == sorted(rows_of(table))
    by_path = command.replace(" --suite tiny", "") + " --published --board elsewhere --suite tiny.yaml"
    assert printed(*by_path.split(), *more).splitlines()[0] == wanted.splitlines()[0]
    assert "unknown suite 'tinny'; did you mean 'tiny'?" in refused(
        *command.replace(" --suite tiny", "").replace("t.csv", "u.csv").split(), "--suite", "tinny", "--published",
        "--board", "elsewhere",
    )  # fmt: skip


def test_export_takes_the_given_suites(place):
    other = suite(name="other", seeds=[0])
    store(place / "runs", full(other, {"rope": (1, 1, 1, 1)}))
    assert printed("export", "--to", "all.csv") == ("56 rows of 14 runs (other, tiny) written to all.csv\n")
    assert printed("export", "--to", "one.csv", "--suite", "other") == "8 rows of 2 runs (other) written to one.csv\n"
    assert set(pd.read_csv(place / "one.csv").suite) == {"other"}
    twice = ("--suite", "tiny", "--suite", "tiny.yaml", "--suite", "tiny")
    assert printed("export", "--to", "once.csv", *twice).startswith("48 rows of 12 runs (tiny) written")
    frame = pd.read_csv(place / "all.csv")
    assert frame.groupby("suite").size().to_dict() == {"tiny": 48, "other": 8}
    assert not frame.duplicated(["fingerprint", "task", "encoding", "seed", "length"]).any()
