"""The store: published runs stay, complete, without duplicates, and under valid file names."""

import re
import shutil

import pytest
from synthetic_results import CURVE, full, place, record, result, store, store_failure, suite, timings

from leaderboard.render.published import build_board
from leaderboard.results import published_failures, read_published
from leaderboard.results import store as store_of
from leaderboard.results.file_names import check_names
from tasks import InputError

COMPOSED = "finetuned(interpolated(rope,fixed=True))"


@pytest.fixture
def folders(tmp_path):
    """Folders of the runs and the board."""
    return tmp_path / "runs", tmp_path / "board"


def files(board):
    return {p.relative_to(board / "results").as_posix(): p.read_bytes() for p in board.rglob("*") if p.is_file()}


def test_one_file_per_encoding_and_one_line_per_run(folders):
    out, board = folders
    runs = full(suite(), {"nope": CURVE, COMPOSED: (1, 1, 1, 1)})
    store(out, runs)
    assert store_of.publish("tiny", out, board) == store_of.Publication("tiny", added=12, kept=0, failures=0)
    assert set(files(board)) == {"tiny/nope.jsonl", f"tiny/{COMPOSED}.jsonl"}
    lines = files(board)["tiny/nope.jsonl"].decode().splitlines()
    order = [(t, s) for t in ("parity", "sorting") for s in (0, 1, 2)]
    assert [tuple(re.search(r'"task":"(\w+)".*"seed":(\d+)', line).groups()) for line in lines] == [
        (t, str(s)) for t, s in order
    ]
    found = read_published(board, "tiny")[["encoding", "task", "seed"]]
    assert [*found.itertuples(index=False, name=None)] == sorted((r.encoding.name, r.task, r.seed) for r in runs)


def test_publishing_again_changes_no_byte_and_no_file(folders):
    out, board = folders
    store(out, full(suite(), {"nope": CURVE}))
    store_of.publish("tiny", out, board)
    before, inodes = files(board), {p: p.stat().st_ino for p in board.rglob("*.jsonl")}
    assert store_of.publish("tiny", out, board) == store_of.Publication("tiny", added=0, kept=6, failures=0)
    assert files(board) == before and inodes == {p: p.stat().st_ino for p in board.rglob("*.jsonl")}


def test_new_runs_are_added_to_those_whose_folder_was_deleted(folders):
    out, board = folders
    first, second = result(suite(), seed=1), result(suite(), seed=0)
    store(out, [first])
    store_of.publish("tiny", out, board)
    shutil.rmtree(out)
    store(out, [second])
    assert store_of.publish("tiny", out, board).added == 1
    assert read_published(board)["seed"].tolist() == [0, 1]


def test_publish_only_some_encodings(folders):
    out, board = folders
    store(out, full(suite(), {"nope": CURVE, "rope": CURVE}))
    assert store_of.publish("tiny", out, board, ["rope"]).added == 6
    assert set(files(board)) == {"tiny/rope.jsonl"}
    with pytest.raises(InputError, match=r"unknown encoding with results of suite tiny 'rop'; did you mean 'rope'"):
        store_of.publish("tiny", out, board, ["rop"])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"exact": (1, 1, 0.5, 0.26)}, "scores"),
        ({"status": "diverged"}, "status"),
        ({"steps": 799}, "steps"),
        ({"loss": [(10, 2.0), (800, 0.2)]}, "loss"),
        ({"longest_seen": 12}, "longest_seen"),
        ({"parameters": {"model": 100_000, "encoding": 1}}, "parameters"),
        ({"encoding": record("nope", settings={"k": 1})}, "settings"),
    ],
)
def test_a_run_that_contradicts_a_published_one_is_refused_and_nothing_is_written(folders, change, named):
    out, board = folders
    store(out, [result(suite(), seed=0)])
    store_of.publish("tiny", out, board)
    before = files(board)
    store(out, [result(suite(), **{"seed": 0} | change), result(suite(), seed=1), result(suite(), encoding="alibi")])
    with pytest.raises(InputError) as error:
        store_of.publish("tiny", out, board)
    (path,) = out.glob("tiny/sorting/nope/seed-0/result.json")
    assert str(error.value) == (
        f"{path} contradicts the published sorting seed 0 of {board}/results/tiny/nope.jsonl in {named}, though suite and seed "
        "are the same; find out why (another processor or version may round differently), then delete one"
    )
    assert files(board) == before


@pytest.mark.parametrize(
    "change",
    [
        {"timings": timings(1, cpu_share=0.5)},
        {"started": "2026-01-01T00:00:00Z", "finished": "2026-01-01T00:00:01Z"},
        {"device": "cpu (another)", "threads": 2, "commit": "a" * 40, "versions": {"torch": "9"}},
        {"encoding": record("nope", title="A new title", source_sha256="f" * 64)},
    ],
)
def test_the_same_outcome_at_another_time_or_place_leaves_the_published_run(folders, change):
    out, board = folders
    store(out, [result(suite())])
    store_of.publish("tiny", out, board)
    before = files(board)
    store(out, [result(suite(), **change)])
    assert store_of.publish("tiny", out, board) == store_of.Publication("tiny", added=0, kept=1, failures=0)
    assert files(board) == before


def test_results_of_an_older_version_stay_and_never_mix(folders):
    out, board = folders
    older = full(suite(), {"nope": CURVE}, fingerprint="older", suite_version=1, data_hash="other")
    store(out, older)
    store_of.publish("tiny", out, board)
    store(out, full(suite(), {"nope": (1, 1, 1, 1)}, fingerprint="newer", suite_version=2))
    assert store_of.publish("tiny", out, board).added == 6
    found = read_published(board)
    assert found.groupby(["suite_version", "fingerprint"]).size().to_dict() == {(1, "older"): 6, (2, "newer"): 6}
    shown = build_board(found, None)
    assert (shown.version, shown.fingerprint, len(shown.runs)) == (2, "newer", 6)
    assert len(files(board)["tiny/nope.jsonl"].splitlines()) == 12


def test_results_that_contradict_each_other_are_refused_before_anything_is_written(folders):
    out, board = folders
    store(out, [result(suite()), result(suite(), seed=1, data_hash="another")])
    with pytest.raises(InputError, match="was tested on other examples than other runs of its task"):
        store_of.publish("tiny", out, board)
    assert not board.exists()


def test_publishing_without_results_gives_advice(folders):
    out, board = folders
    (out / "tiny").mkdir(parents=True)
    with pytest.raises(InputError, match=r"no results of suite tiny under .*; `lprime run` writes them"):
        store_of.publish("tiny", out, board)
    assert not board.exists()


def test_failures_are_published_without_traceback_until_the_run_succeeds(folders):
    out, board = folders
    run, broken = result(suite(), "sorting", "rope|x", 0), result(suite(), "parity", "rope|x", 2)
    store(out, [run])
    store_failure(out, broken, "out of <memory>")
    store_failure(out, result(suite(), "parity", "mine", 2), "code of its own, without a ranked run")
    assert store_of.publish("tiny", out, board).failures == 1
    text = files(board)["tiny/failures.json"].decode()
    assert "out of <memory>" in text and "Traceback" not in text
    (row,) = published_failures(board, "tiny").to_dict("records")
    assert (row["task"], row["encoding"], row["seed"], row["error"]) == ("parity", "rope|x", 2, "out of <memory>")
    shutil.rmtree(place(out, broken))  # deleted locally, but still without a result
    assert store_of.publish("tiny", out, board).failures == 1
    store(out, [broken])
    assert store_of.publish("tiny", out, board).failures == 0
    assert "tiny/failures.json" not in files(board)


def test_hostile_names_are_refused_before_anything_is_written(folders):
    out, board = folders
    store(out, [result(suite()), result(suite(), encoding=record("a\nb"))])
    with pytest.raises(InputError, match="cannot be published: its name"):
        store_of.publish("tiny", out, board)
    assert not board.exists()


def test_names_that_some_file_systems_do_not_distinguish_are_refused(folders):
    out, board = folders
    store(out, [result(suite(), encoding="nope")])
    store_of.publish("tiny", out, board)
    shutil.rmtree(out)
    store(out, [result(suite(), encoding="Nope")])
    with pytest.raises(InputError, match="encodings 'Nope' and 'nope' cannot both be published"):
        store_of.publish("tiny", out, board)
    with pytest.raises(InputError):
        check_names(["é", "e\u0301"])


def test_only_sealed_runs_of_code_that_is_not_built_in_are_published(folders):
    out, board = folders
    store(out, full(suite(), {"mine": CURVE}, sealed=False))
    with pytest.raises(
        InputError, match="mine is not built in, and the run was not sealed; run it again with `lprime run tiny --sealed`"
    ):
        store_of.publish("tiny", out, board)
    assert not board.exists()
    store(out, full(suite(), {"mine": CURVE}, sealed=True))
    assert store_of.publish("tiny", out, board).added == 6
