"""The frame of runs and the store: what is damaged is named and skipped; published runs stay, without duplicates."""

import json
import re
import subprocess
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_results import CURVE, GOOD, full, record, result, store, suite, timings

from bench.result import RESULT
from leaderboard.render.published import build_board, joint_board
from leaderboard.results.file_names import file_name, page_name
from leaderboard.results.frame import Damaged, read_local, read_published, read_runs
from leaderboard.results.store import publish
from tasks import InputError

COMPOSED = "finetuned(interpolated(rope,fixed=True))"


@pytest.fixture
def out(tmp_path):
    """Folder of runs, with two encodings."""
    store(tmp_path / "runs", full(suite(), {"nope": CURVE, COMPOSED: GOOD}))
    return tmp_path / "runs"


@pytest.fixture
def board(tmp_path):
    """Folder of a published board."""
    return tmp_path / "board"


def files(board):
    return {p.relative_to(board / "results").as_posix(): p.read_bytes() for p in board.rglob("*") if p.is_file()}


def damaged(read):
    """The frame, and the warnings of its reading."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = read()
    assert all(one.category is Damaged for one in caught)
    return frame, [str(one.message) for one in caught]


def test_reading_needs_neither_torch_nor_matplotlib():
    code = "import sys, leaderboard.render.terminal; print({'torch', 'matplotlib'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_everything_is_read_and_foreign_files_are_not(out):
    (out / "tiny/parity/nope/seed-x").mkdir()
    (out / "tiny/parity/nope/seed-x" / RESULT).write_text("foreign")
    frame, faults = damaged(lambda: read_local(out, "tiny"))
    assert (len(frame), faults, set(frame["origin"])) == (12, [], {"local"})
    assert frame["exact"].iloc[-1].tolist() == list(CURVE) and frame["length"].iloc[0].tolist() == [2, 4, 6, 8]
    empty = read_local(out, "nothing")
    assert len(empty) == 0 and [*empty.columns] == [*frame.columns]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda text: text[:100], "is not a whole result"),
        (lambda text: text.replace('"seed":2', '"seed":"a"'), "is not a whole result (seed: "),
        (lambda text: text.replace('"format":1', '"format":2'), "was written by another version of lprime (format: "),
        (lambda text: text.replace('"format":1', '"new":2'), "was written by another version of lprime"),
        (lambda text: text.replace('"task":"sorting"', '"task":"parity"'), "holds the result of tiny/parity/nope/seed-2"),
        (lambda text: text.replace("hash of sorting", "another"), "was tested on other examples"),
    ],
)
def test_a_damaged_result_is_named_and_the_others_are_read(out, change, fault):
    path = out / "tiny/sorting/nope/seed-2" / RESULT
    text = json.dumps(json.loads(path.read_text()), separators=(",", ":"))
    path.write_text(change(text))
    assert path.read_text() != text
    frame, faults = damaged(lambda: read_local(out, "tiny"))
    assert len(frame) == 11 and len(faults) == 1 and fault in faults[0]
    assert "sorting/nope/seed-2" in faults[0]


def test_damaged_lines_of_the_store_are_named_by_file_and_line(out, board):
    publish("tiny", out, board)
    path = board / "results/tiny/nope.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0][:50], *lines[1:], lines[1]]) + "\n")
    frame, faults = damaged(lambda: read_published(board, "tiny"))
    assert len(frame) == 11
    assert len(faults) == 2 and "nope.jsonl, line 1 " in faults[0] and "is a second result of this run" in faults[1]


def test_local_rows_stand_beside_published_ones_of_the_same_suite_and_seeds(out, board, tmp_path, capsys):
    publish("tiny", out, board)
    store(tmp_path / "own", full(suite(), {"nope": GOOD, "mine": CURVE}, sealed=False))
    assert read_runs(None, tmp_path / "own", board)["origin"].value_counts().to_dict() == {"published": 12, "local": 12}
    assert joint_board("tiny", tmp_path / "own", board).encodings == [COMPOSED, "mine (local)", "nope", "nope (local)"]
    store(tmp_path / "next", full(suite(version=2), {"nope": GOOD}))
    store(tmp_path / "next", full(suite(seeds=[3]), {"mine": GOOD}, sealed=False))
    assert joint_board("tiny", tmp_path / "next", board).encodings == [COMPOSED, "nope"]
    assert "your runs of another version or seed are left out" in capsys.readouterr().err


def test_one_file_per_encoding_and_one_line_per_run(out, board):
    assert publish("tiny", out, board) == (12, 0)
    assert set(files(board)) == {"tiny/nope.jsonl", f"tiny/{COMPOSED}.jsonl"}
    lines = files(board)["tiny/nope.jsonl"].decode().splitlines()
    order = [(t, str(s)) for t in ("parity", "sorting") for s in (0, 1, 2)]
    assert [re.search(r'"task":"(\w+)".*"seed":(\d+)', line).groups() for line in lines] == order
    assert len(read_published(board, "tiny")) == 12


def test_the_same_outcome_at_another_time_or_place_changes_no_byte_and_no_file(out, board):
    publish("tiny", out, board)
    before, inodes = files(board), {p: p.stat().st_ino for p in board.rglob("*.jsonl")}
    dates = {"started": "2026-01-01T00:00:00Z", "finished": "2026-01-01T00:00:01Z", "timings": timings(1, cpu_share=0.5)}
    machine = {"device": "cpu (another)", "threads": 2, "commit": "a" * 40, "versions": {"torch": "9"}}
    store(out, [result(suite(), **dates, **machine)])
    assert publish("tiny", out, board) == (0, 12)
    assert files(board) == before and inodes == {p: p.stat().st_ino for p in board.rglob("*.jsonl")}


def test_publish_only_some_encodings(out, board):
    assert publish("tiny", out, board, ["nope"])[0] == 6
    assert set(files(board)) == {"tiny/nope.jsonl"}
    with pytest.raises(InputError, match=r"unknown encoding with results of suite tiny 'nop'; did you mean 'nope'"):
        publish("tiny", out, board, ["nop"])
    store(out, [result(suite()).model_copy(update={"task": "mine"})])
    with pytest.raises(InputError, match="task mine is not built in; boards have built-in tasks only"):
        publish("tiny", out, board)


def test_seeds_that_a_shipped_suite_does_not_name_are_not_published(tmp_path, board):
    store(tmp_path / "runs", full(suite(name="quick", seeds=[0, 7]), {"nope": CURVE}))
    assert publish("quick", tmp_path / "runs", board) == (2, 0) and {*read_published(board, "quick")["seed"]} == {0}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"exact": (1, 1, 0.5, 0.26)}, "scores"),
        ({"loss": [(10, 2.0), (800, 0.2)], "steps": 799}, "steps, loss"),
        ({"encoding": record("nope", settings={"k": 1})}, "settings"),
    ],
)
def test_a_run_that_contradicts_a_published_one_is_refused_and_nothing_is_written(tmp_path, board, change, named):
    out = tmp_path / "runs"
    store(out, [result(suite(), seed=0)])
    publish("tiny", out, board)
    before = files(board)
    store(out, [result(suite(), **{"seed": 0} | change), result(suite(), seed=1), result(suite(), encoding="alibi")])
    with pytest.raises(InputError) as error:
        publish("tiny", out, board)
    assert str(error.value) == (
        f"{out}/tiny/sorting/nope/seed-0/result.json contradicts the published sorting seed 0 of "
        f"{board}/results/tiny/nope.jsonl in {named}; find out why "
        "(another processor or version rounds differently; sealed runs draw their tests), then delete one"
    )
    assert files(board) == before


def test_results_whose_folder_is_gone_and_of_an_older_version_stay_and_never_mix(tmp_path, board):
    store(tmp_path / "old", full(suite(), {"nope": CURVE}, fingerprint="older", suite_version=1, data_hash="other"))
    publish("tiny", tmp_path / "old", board)
    out = tmp_path / "runs"
    store(out, full(suite(), {"nope": GOOD}, fingerprint="newer", suite_version=2))
    assert publish("tiny", out, board)[0] == 6
    found = read_published(board, "tiny")
    assert found.groupby(["suite_version", "fingerprint"]).size().to_dict() == {(1, "older"): 6, (2, "newer"): 6}
    shown = build_board(found, None)
    assert (shown.version, shown.fingerprint, len(shown.runs), shown.left_out) == (2, "newer", 6, 6)


REFUSED = {
    "was tested on other examples than other runs of its task": [result(suite(), seed=1, data_hash="another")],
    "cannot be published: its name": [result(suite(), encoding=record("a\nb"))],
    "mine is not built in, and the run was not sealed; run it again with `lprime run tiny --encoding FOLDER --sealed`":
        [result(suite(), encoding="mine", sealed=False)],
    "mine is not built in, and the run": [result(suite(), encoding="mine", test_seed=None)],
}  # fmt: skip


def test_sealed_runs_have_examples_of_their_own(out, board):
    before = publish("tiny", out, board)[0]
    store(out, [result(suite(), encoding="mine", seed=n, sealed=True, data_hash=f"drawn {n}") for n in range(2)])
    assert (publish("tiny", out, board)[0], len(read_published(board, "tiny"))) == (2, before + 2)


@pytest.mark.parametrize("fault", REFUSED)
def test_what_may_not_be_published_is_refused_before_anything_is_written(out, board, fault):
    store(out, REFUSED[fault])
    with pytest.raises(InputError, match=fault):
        publish("tiny", out, board)
    assert not board.exists()


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "a\\b", ".hidden", "", "a\x1b[31mb", "a\ud800b", "x" * 300])
def test_hostile_names_are_refused_in_one_line(name):
    with pytest.raises(InputError, match="cannot be published: its name must be short") as error:
        file_name(name)
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def unpage(page):
    """The inverse of ``page_name``, written from its docstring."""
    raw = page.replace("~", "(")
    raw = re.sub(r"(?:\+[0-9A-F]{2})+", lambda m: bytes.fromhex(m[0].replace("+", "")).decode(errors="surrogatepass"), raw)
    return raw + ")" * (raw.count("(") - raw.count(")")) if "~" in page else raw


@given(st.text(alphabet="ab()(),=+~.é|", max_size=12))
def test_no_two_names_share_a_page(name):
    page = page_name(name)
    assert re.fullmatch(r"[A-Za-z0-9._=,+~-]*", page)
    assert unpage(page) == name
    assert page_name(COMPOSED) == "finetuned~interpolated~rope,fixed=True"
