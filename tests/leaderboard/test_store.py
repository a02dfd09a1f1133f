"""The store: published runs stay, complete, without duplicates, and under valid file names."""

import re
import shutil

import pytest
from synthetic_results import CURVE, full, place, record, result, store, store_failure, suite, timings

from bench.suites.suite import load_suite
from leaderboard.data import store as published
from leaderboard.data.file_names import check_names
from leaderboard.render.board import render_board
from leaderboard.render.html_page import render_html_page
from leaderboard.render.unverified import unverified_section
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
    assert published.publish_runs(suite(), out, board) == published.Publication("tiny", added=12, kept=0, failures=0)
    assert set(files(board)) == {"tiny/nope.jsonl", f"tiny/{COMPOSED}.jsonl"}
    lines = files(board)["tiny/nope.jsonl"].decode().splitlines()
    order = [(t, s) for t in ("parity", "sorting") for s in (0, 1, 2)]
    assert [tuple(re.search(r'"task":"(\w+)".*"seed":(\d+)', line).groups()) for line in lines] == [
        (t, str(s)) for t, s in order
    ]
    assert published.read_store(board) == {"tiny": sorted(runs, key=lambda r: (r.encoding.name, r.task, r.seed))}


def test_publishing_again_changes_no_byte_and_no_file(folders):
    out, board = folders
    store(out, full(suite(), {"nope": CURVE}))
    published.publish_runs(suite(), out, board)
    before, inodes = files(board), {p: p.stat().st_ino for p in board.rglob("*.jsonl")}
    assert published.publish_runs(suite(), out, board) == published.Publication("tiny", added=0, kept=6, failures=0)
    assert files(board) == before and inodes == {p: p.stat().st_ino for p in board.rglob("*.jsonl")}


def test_new_runs_are_added_to_those_whose_folder_was_deleted(folders):
    out, board = folders
    first, second = result(suite(), seed=1), result(suite(), seed=0)
    store(out, [first])
    published.publish_runs(suite(), out, board)
    shutil.rmtree(out)
    store(out, [second])
    assert published.publish_runs(suite(), out, board).added == 1
    assert published.read_store(board)["tiny"] == [second, first]


def test_submitted_runs_are_unverified_until_they_are_recomputed(folders):
    out, board = folders
    of = suite()
    claims = full(of, {"mine": (1, 1, 1, 1)}, sealed=False)
    found = full(of, {"mine": CURVE})
    store(out, full(of, {"nope": CURVE}) + found[:1])
    done = published.publish_runs(of, out, board, claims=claims)
    assert done == published.Publication("tiny", added=7, kept=0, failures=0, unverified=5)
    (grid,) = published.published_grids(board)["tiny"]
    assert grid.runs["parity", "mine"] == (found[0],) and ("sorting", "mine") not in grid.runs
    text = unverified_section(grid)[-1]
    assert re.search(r"\| mine +\| +5 \| +1 \| +1\.000 \| +1\.000 \|", text), text
    assert "**Unverified**" in render_board([grid])["board.md"]
    assert "<li>mine: 5 submitted runs, 1 recomputed</li>" in render_html_page({"tiny": [grid]})

    store(out, [run.model_copy(update={"sealed": False}) for run in found[1:3]])  # by `lprime run`
    assert published.publish_runs(of, out, board, claims=claims).unverified == 5
    store(out, found)
    assert published.publish_runs(of, out, board, claims=claims).unverified == 0
    assert set(files(board)) == {"tiny/nope.jsonl", "tiny/mine.jsonl"}
    assert published.published_grids(board)["tiny"][0].unverified is None


def test_other_runs_do_not_replace_unverified_ones_without_a_word(folders):
    out, board = folders
    mine = full(suite(), {"mine": CURVE}, sealed=False)
    store(out, mine)
    assert published.publish_runs(suite(), out, board).unverified == 6
    before = files(board)
    store(out, full(suite(), {"mine": (1, 1, 1, 1)}, sealed=False))
    with pytest.raises(InputError, match=r"contradicts the published parity seed 0 of .*mine.jsonl in scores"):
        published.publish_runs(suite(), out, board)
    shutil.rmtree(out)
    store(out, full(suite(), {"Mine": CURVE}, sealed=False))
    with pytest.raises(InputError, match="cannot both be published"):
        published.publish_runs(suite(), out, board)
    assert files(board) == before


def test_publish_only_some_encodings(folders):
    out, board = folders
    store(out, full(suite(), {"nope": CURVE, "rope": CURVE}))
    assert published.publish_runs(suite(), out, board, ["rope"]).added == 6
    assert set(files(board)) == {"tiny/rope.jsonl"}
    with pytest.raises(InputError, match=r"unknown encoding with results of suite tiny 'rop'; did you mean 'rope'"):
        published.publish_runs(suite(), out, board, ["rop"])


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
    published.publish_runs(suite(), out, board)
    before = files(board)
    store(out, [result(suite(), **{"seed": 0} | change), result(suite(), seed=1), result(suite(), encoding="alibi")])
    with pytest.raises(InputError) as error:
        published.publish_runs(suite(), out, board)
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
    published.publish_runs(suite(), out, board)
    before = files(board)
    store(out, [result(suite(), **change)])
    assert published.publish_runs(suite(), out, board) == published.Publication("tiny", added=0, kept=1, failures=0)
    assert files(board) == before


def test_results_of_an_older_version_stay_and_never_mix(folders):
    out, board = folders
    older = full(suite(), {"nope": CURVE}, fingerprint="older", suite_version=1, data_hash="other")
    store(out, older)
    published.publish_runs("tiny", out, board)
    store(out, full(suite(), {"nope": (1, 1, 1, 1)}, fingerprint="newer", suite_version=2))
    assert published.publish_runs("tiny", out, board).added == 6
    first, second = published.published_grids(board)["tiny"]
    assert (first.version, first.fingerprint, len(first.all_runs)) == (2, "newer", 6)
    assert (second.version, second.fingerprint, len(second.all_runs)) == (1, "older", 6)
    assert len(files(board)["tiny/nope.jsonl"].splitlines()) == 12


def test_results_that_contradict_each_other_are_refused_before_anything_is_written(folders):
    out, board = folders
    store(out, [result(suite()), result(suite(), seed=1, data_hash="another")])
    with pytest.raises(InputError, match="tested on different examples"):
        published.publish_runs(suite(), out, board)
    assert not board.exists()


def test_publishing_without_results_gives_advice(folders):
    out, board = folders
    (out / "tiny").mkdir(parents=True)
    with pytest.raises(InputError, match=r"no results of suite tiny under .*; run `lprime run tiny\.yaml --out .*` first"):
        published.publish_runs("tiny", out, board)
    assert not board.exists()


def test_failures_are_published_without_traceback_until_the_run_succeeds(folders):
    out, board = folders
    run, broken = result(suite(), "sorting", "rope|x", 0), result(suite(), "parity", "rope|x", 2)
    store(out, [run])
    store_failure(out, broken, "out of <memory>")
    store_failure(out, result(suite(), "parity", "mine", 2), "code of its own, without a ranked run")
    assert published.publish_runs(suite(), out, board).failures == 1
    text = files(board)["tiny/failures.json"].decode()
    assert "out of <memory>" in text and "Traceback" not in text
    (grid,) = published.published_grids(board)["tiny"]
    assert [(key, f.error) for key, f in grid.failures.items()] == [(("parity", "rope|x", 2), "out of <memory>")]
    shutil.rmtree(place(out, broken))  # deleted locally, but still without a result
    assert published.publish_runs(suite(), out, board).failures == 1
    store(out, [broken])
    assert published.publish_runs(suite(), out, board).failures == 0
    assert "tiny/failures.json" not in files(board)


def test_failures_of_an_older_version_are_not_those_of_the_newer(folders):
    out, board = folders
    store(out, [result(suite())])
    store_failure(out, result(suite(), seed=1), "boom")
    published.publish_runs(suite(), out, board)
    newer = suite(version=2)
    shutil.rmtree(out)
    store(out, [result(newer, finished="2026-01-01T00:00:00Z")])
    published.publish_runs(newer, out, board)
    first, second = published.published_grids(board)["tiny"]
    assert (first.version, dict(first.failures), second.version) == (2, {}, 1)


def test_a_shipped_suite_defines_the_expected_runs_only_of_its_present_fingerprint(folders):
    out, board = folders
    quick = load_suite("quick")
    run = result(quick, "sorting", exact=[1.0] * len(quick.test_lengths("sorting")))
    store(out, [run])
    published.publish_runs("quick", out, board)
    (grid,) = published.published_grids(board)["quick"]
    assert grid.suite == quick and len(grid.columns) == len(quick.tasks) and grid.encodings == ("nope",)
    shutil.rmtree(board)
    store(out, [run.model_copy(update={"fingerprint": "older"})])
    published.publish_runs("quick", out, board)
    (grid,) = published.published_grids(board)["quick"]
    assert grid.suite is None and grid.encodings == ("nope",)


def test_hostile_names_are_refused_before_anything_is_written(folders):
    out, board = folders
    store(out, [result(suite()), result(suite(), encoding=record("a\nb"))])
    with pytest.raises(InputError, match="cannot be published: its name"):
        published.publish_runs(suite(), out, board)
    assert not board.exists()


def test_names_that_some_file_systems_do_not_distinguish_are_refused(folders):
    out, board = folders
    store(out, [result(suite(), encoding="nope")])
    published.publish_runs(suite(), out, board)
    shutil.rmtree(out)
    store(out, [result(suite(), encoding="Nope")])
    with pytest.raises(InputError, match="encodings 'Nope' and 'nope' cannot both be published"):
        published.publish_runs(suite(), out, board)
    with pytest.raises(InputError):
        check_names(["é", "e\u0301"])
