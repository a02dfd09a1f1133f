"""``lprime publish`` and ``lprime board --check``: published files are compared byte by byte, and differing ones are named."""

import shutil

import pytest
from commands import printed, refused
from support import lprime
from synthetic_results import CURVE, a_card, full, result, store, suite

from bench.measure import measure
from leaderboard.render.publish import MANIFEST


def lines(*arguments):
    return printed(*arguments).splitlines()


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """Runs of two encodings, and a board published from them."""
    folder = tmp_path_factory.mktemp("published")
    store(folder / "runs", full(suite(), {"nope": CURVE, "my|pe": (1, 1, 1, 1)}))
    done = lprime("publish", "tiny", "--out", folder / "runs", "--board", folder / "board", "--no-measure")
    assert done.stdout.splitlines()[0] == "tiny: 12 runs added, 0 published before", done.stderr
    return folder


@pytest.fixture
def published(once, tmp_path):
    """Folders of the runs and the board; a copy for this test."""
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    return tmp_path / "runs", tmp_path / "board"


def contents(board):
    return {p.relative_to(board).as_posix(): p.read_bytes() for p in board.rglob("*") if p.is_file()}


def test_publish_writes_everything_and_check_agrees(published):
    out, board = published
    before = contents(board)
    assert {"README.md", "rendered.json", "pages/nope.md", "pages/my+7Cpe.md", "results/tiny/my|pe.jsonl"} <= set(before)
    assert {"images/tiny/pages/nope.svg", "images/tiny/overview.svg", "suites/tiny-sorting.md"} <= set(before)
    (said,) = lines("board", "--check", "--board", board)
    rendered = [p for p in before if not p.startswith("results/") and p != MANIFEST]
    results = [p for p in before if p.startswith("results/")]
    assert said == f"{len(rendered)} files under {board} match the {len(results)} result files"
    for arguments in (["tiny", "--no-measure"], []):
        lines("publish", *arguments, "--out", out, "--board", board)
        assert contents(board) == before


def test_the_published_board_in_a_terminal_and_as_a_page(published, tmp_path):
    out, board = published
    for arguments in ([], ["--published"]):
        assert "my|pe" in printed("board", "tiny", *arguments, "--out", out, "--board", board)
    page = tmp_path / "page"
    assert printed("board", "--html", page, "--board", board) == f"written to {page / 'index.html'}\n"
    assert (page / "index.html").is_file() and len((page / "tiny.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize("name", ["README.md", "pages/nope.md", "images/tiny/pages/nope.svg"])
def test_check_catches_one_byte(published, name):
    _, board = published
    path = board / name
    whole = path.read_bytes()
    middle = len(whole) // 2
    for damaged in (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], whole + b"\n", None):
        path.write_bytes(damaged) if damaged else path.unlink()
        missing = "" if damaged else " (missing)"
        said = refused("board", "--check", "--board", board)
        assert f"lprime: {path}{missing}: not the rendering of {board}/results; `lprime publish` renders all again\n" == said
        assert path.read_bytes() == damaged if damaged else not path.exists()


def test_check_catches_a_changed_byte_that_no_page_shows(published):
    _, board = published
    path = board / "results/tiny/nope.jsonl"
    assert '"loss":[[10,2.0]' in path.read_text()
    path.write_text(path.read_text().replace('"loss":[[10,2.0]', '"loss":[[10,3.0]', 1))
    assert refused("board", "--check", "--board", board).startswith(f"lprime: {path}: not the rendering of")


def test_obsolete_files_are_removed_and_foreign_files_are_kept(published):
    _, board = published
    foreign = board / "images/holiday.png"
    foreign.write_bytes(b"sea")
    (board / "results/tiny/my|pe.jsonl").unlink()
    assert "not the rendering of" in refused("board", "--check", "--board", board)
    (board / "images/tiny/curves.svg").write_text("damaged")
    lines("publish", "--board", board)
    assert b"<svg" in (board / "images/tiny/curves.svg").read_bytes()
    assert [p.name for p in (board / "pages").iterdir()] == ["nope.md"] and foreign.exists()
    assert not list((board / "images/tiny/pages").glob("my*"))


def test_bad_input_is_one_line(published, tmp_path):
    out, board = published
    assert "unknown suite 'smal'; did you mean 'small'" in refused("publish", "smal", "--out", out, "--board", board)
    assert "no results of suite quick" in refused("publish", "quick", "--out", out, "--board", board)
    (board / MANIFEST).write_text('{"drawn with": {}, "results": {}, "files": {"../../x": "y"}}')
    assert f"{board / MANIFEST} was not written by `lprime publish`" in refused("board", "--check", "--board", board)
    (tmp_path / "file").write_text("kept")
    assert "cannot write" in refused("publish", "tiny", "--out", out, "--board", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"
    shutil.rmtree(board / "results/tiny")
    assert f"nothing is published under {board}; expected results/" in refused("board", "--check", "--board", board)
    assert "one of --check, --html and --json" in refused("board", "--check", "--json", "--board", board)
    assert "without --force" in refused("export", "--hub", tmp_path / "hub", "--force")


def test_cards_are_measured_for_known_encodings(tmp_path, monkeypatch):
    measured = []
    monkeypatch.setattr(measure, "measure_encoding", lambda cls: measured.append(cls.info.name) or a_card())
    out, board = tmp_path / "runs", tmp_path / "board"
    store(out, [result(suite()), result(suite(), encoding="my|pe")])
    said = lines("publish", "tiny", "--out", out, "--board", board)
    assert said[0] == "tiny: 2 runs added, 0 published before"
    assert measured == ["nope"]
    page = (board / "pages/nope.md").read_text()
    assert r"s_{ij} = \frac{q_i \cdot k_j}{\sqrt d}" in page
    assert "formula" not in (board / "pages/my+7Cpe.md").read_text()
