"""The frame of runs: what is damaged is named and skipped, and everything else is read."""

import json
import subprocess
import sys
import warnings

import pandas as pd
import pytest
from synthetic_results import CURVE, full, place, result, store, store_failure, suite

from bench.result import RESULT
from leaderboard.render.published import build_board, local_board
from leaderboard.results import Damaged, local_failures, read_local, read_published, together
from leaderboard.results.store import publish
from leaderboard.stats.rows import LOCAL


@pytest.fixture
def out(tmp_path):
    store(tmp_path / "runs", full(suite(), {"nope": CURVE, "rope": (1, 1, 1, 1)}))
    return tmp_path / "runs"


def test_reading_needs_neither_torch_nor_matplotlib():
    code = "import sys, leaderboard.render.terminal; print({'torch', 'matplotlib'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def damaged(read):
    """The frame, and the warnings of its reading."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = read()
    assert all(one.category is Damaged for one in caught)
    return frame, [str(one.message) for one in caught]


def test_everything_is_read_and_foreign_files_are_not(out):
    (out / "tiny/parity/nope/seed-x").mkdir()
    (out / "tiny/parity/nope/seed-x" / RESULT).write_text("foreign")
    frame, faults = damaged(lambda: read_local(out))
    assert (len(frame), faults, set(frame["origin"])) == (12, [], {"local"})
    assert frame["exact"].iloc[0].tolist() == list(CURVE) and frame["length"].iloc[0].tolist() == [2, 4, 6, 8]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda text: text[:100], "is not a whole result"),
        (lambda _: "", "is not a whole result"),
        (lambda text: text.replace('"seed":0', '"seed":"a"'), "is not a whole result"),
        (lambda text: text.replace('"format":1', '"format":2'), "was written by a newer version of lprime (format 2)"),
        (lambda text: text.replace('"task":"sorting"', '"task":"parity"'), "holds the result of tiny/nope/parity"),
        (lambda text: text.replace('"train_length":6', '"train_length":60'), "expected lengths up to L = 60 and past it"),
        (lambda text: text.replace("hash of sorting", "another"), "was tested on other examples"),
    ],
)
def test_a_damaged_result_is_named_and_the_others_are_read(out, change, fault):
    path = out / "tiny/sorting/nope/seed-0" / RESULT
    text = json.dumps(json.loads(path.read_text()), separators=(",", ":"))
    path.write_text(change(text))
    assert path.read_text() != text
    frame, faults = damaged(lambda: read_local(out))
    assert len(frame) >= 11 - 5 * ("examples" in fault) and any(fault in one for one in faults), faults
    assert all("nope" in one or "examples" in one for one in faults)


def test_damaged_lines_of_the_store_are_named_by_file_and_line(out, tmp_path):
    board = tmp_path / "board"
    publish("tiny", out, board)
    path = board / "results/tiny/nope.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0][:50], *lines[1:], lines[1]]) + "\n")
    frame, faults = damaged(lambda: read_published(board))
    assert len(frame) == 11
    assert len(faults) == 2 and "nope.jsonl" in faults[0] and "is a second result of this run" in faults[1]


def test_local_rows_stand_beside_published_ones_of_the_same_name(out, tmp_path):
    publish("tiny", out, tmp_path / "board")
    own = tmp_path / "own"
    store(own, full(suite(), {"nope": (1, 1, 1, 1), "mine": CURVE}, sealed=False))
    found = together(read_published(tmp_path / "board"), read_local(own))
    assert len(found) == 24 and found["origin"].value_counts().to_dict() == {"published": 12, "local": 12}
    assert {*build_board(read_local(own), None).encodings} == {"nope", "mine"} and LOCAL == " (local)"
    assert isinstance(local_board, object)


def test_failures_are_listed_and_broken_ones_named(out):
    failed = result(suite(), "parity", "alibi", 1)
    store_failure(out, failed, "out of memory")
    (out / "tiny/parity/alibi/seed-2").mkdir(parents=True)
    (out / "tiny/parity/alibi/seed-2/failure.json").write_text("[")
    frame, faults = damaged(lambda: local_failures(out))
    assert frame[["task", "encoding", "seed", "error"]].values.tolist() == [["parity", "alibi", 1, "out of memory"]]
    assert len(faults) == 1 and "is not a failure report" in faults[0]


def test_an_empty_folder_gives_an_empty_frame_with_all_columns(tmp_path, out):
    empty = read_local(tmp_path / "nothing")
    assert len(empty) == 0 and [*empty.columns] == [*read_local(out).columns] and isinstance(empty, pd.DataFrame)
    assert not place(tmp_path, result(suite())).exists()
