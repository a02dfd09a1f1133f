"""Files of the store that are broken, misplaced or foreign."""

import re

import pytest
from synthetic_results import CURVE, full, store, suite

from leaderboard.data import store as published
from leaderboard.data.collect import collect
from tasks import InputError


@pytest.fixture
def out(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def board(tmp_path, out):
    """A board on which all runs of one encoding are published."""
    store(out, full(suite(), {"nope": CURVE}))
    published.publish_runs(suite(), out, tmp_path / "board")
    return tmp_path / "board"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[1]", '[{"task": "parity"}]', '{"a": 1}', "\x00", '[{"task":1,"encoding":2,"seed":"x"}]']
    + [
        f'[{{"task":{t},"encoding":"nope","seed":{s},"error":"e","traceback":"","finished":"2025-01-01T00:00:03Z"}}]'
        for t, s in (('["a"]', 0), ('"parity"', "Infinity"), (5, 0), ('"parity"', '"x"'))
    ],
)
def test_broken_failures_are_named(board, text):
    path = board / "results/tiny/failures.json"
    path.write_text(text)
    with pytest.raises(InputError, match=f"{re.escape(str(path))} is not a list of failed runs"):
        published.published_grids(board)


@pytest.mark.parametrize("cut", [1, 40, -2, -40])
def test_truncated_lines_are_named_by_file_and_line_and_kept(out, board, cut):
    path = board / "results/tiny/nope.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(broken := b"".join([*lines[:2], lines[2][:cut], b"\n" if cut > 0 else b"", *lines[3:]]))
    for call in (lambda: published.read_store(board), lambda: published.publish_runs(suite(), out, board)):
        with pytest.raises(InputError, match=rf"^{re.escape(str(path))}, line 3, is not a whole result \("):
            call()
    assert path.read_bytes() == broken


def test_all_broken_lines_and_files_are_named_at_once(out, board):
    """Up to four, with the number of the others."""
    path = board / "results/tiny/nope.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for broken, others in {1: "", 2: "; also broken: {0}2", 6: "; also broken: {0}2, {0}3, {0}4 and 2 more"}.items():
        path.write_text("".join([*["{}\n"] * broken, *lines[broken:]]))
        with pytest.raises(InputError) as fault:
            published.read_store(board)
        expected = others.format(f"{path}, line ")
        assert str(fault.value).startswith(f"{path}, line 1, is not a whole result (")
        assert str(fault.value).endswith(f"; restore it from git, or delete the line{expected}")
    places = [out / "tiny/parity/nope" / f"seed-{seed}" / "result.json" for seed in (0, 2)]
    for place in places:
        place.write_text("")
    with pytest.raises(InputError, match=rf"^{places[0]} is not a whole .* run it again; also broken: {places[1]}$"):
        collect("tiny", out)


@pytest.mark.parametrize("text", [b"", b"\n", b"\n\n", b"null\n", b"\xff\xfe\n", b"{}\n"])
def test_files_without_results_are_named(board, text):
    path = board / "results/tiny/nope.jsonl"
    path.write_bytes(text)
    with pytest.raises(InputError, match=r"nope\.jsonl, line 1, is not a whole result"):
        published.read_store(board)


def test_lines_in_the_wrong_file_and_duplicate_lines_are_refused(board):
    path = board / "results/tiny/nope.jsonl"
    text = path.read_text()
    path.write_text(text * 2)
    with pytest.raises(InputError, match=r"line 7, is a duplicate of parity seed 0; delete one"):
        published.read_store(board)
    path.unlink()
    for wrong in ("tiny/rope.jsonl", "other/nope.jsonl"):
        place = board / "results" / wrong
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
        with pytest.raises(InputError, match=rf"line 1, holds the result of tiny/nope\.jsonl, expected {wrong}; "):
            published.read_store(board)
        place.unlink()


def test_foreign_files_in_the_store_are_ignored(board):
    for stray in ("README.md", "tiny/notes.txt", "tiny/.nope.jsonl.x.tmp", ".git/nope.jsonl", "tiny/.hidden.jsonl"):
        (board / "results" / stray).parent.mkdir(exist_ok=True)
        (board / "results" / stray).write_text("nothing")
    assert len(published.read_store(board)["tiny"]) == 6
