"""``lprime publish`` and ``lprime board --check``: published files are compared byte by byte, and differing ones are named."""

import shutil

import pytest
from commands import printed, refused
from support import lprime
from synthetic_results import CURVE, full, result, store, store_failure, suite

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
    _out, board = published
    before = contents(board)
    assert {"README.md", "rendered.json", "pages/nope.md", "pages/my+7cpe.md", "results/tiny/my|pe.jsonl"} <= set(before)
    assert {"images/tiny/pages/nope.svg", "images/tiny/overview.svg", "suites/tiny-sorting.md"} <= set(before)
    assert "expected it alone, got 'tiny'" in refused("board", "tiny", "--check", "--board", board)
    (said,) = lines("board", "--check", "--board", board)
    assert "results/cards.json" in before
    rendered = [p for p in before if not p.startswith("results/") and p != MANIFEST]
    results = [p for p in before if p.startswith("results/")]
    assert said == f"{len(rendered)} files under {board} match the {len(results)} result files"
    assert contents(board) == before, "checking writes nothing"


def test_publishing_again_changes_nothing(published):
    out, board = published
    before = contents(board)
    for arguments in (["tiny", "--no-measure"], []):
        said = lines("publish", *arguments, "--out", out, "--board", board)
        assert said[-1] == f"everything under {board} is up to date"
    assert contents(board) == before


def flip(data):
    """One bit of one byte in the middle."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def pick(board, pattern):
    return sorted(p for p in board.glob(pattern) if p.is_file())[0]


KINDS = ["README.md", "pages/nope.md", "images/tiny/curves.svg", "images/tiny/pages/nope.svg"]


@pytest.mark.parametrize("change", [flip, lambda data: data + b"\n", lambda data: data[:-1], None])
def test_check_catches_one_byte(published, change):
    _, board = published
    whole = {path: path.read_bytes() for path in (pick(board, pattern) for pattern in KINDS)}

    def damage(path):
        path.write_bytes(change(whole[path])) if change else path.unlink()

    for path, data in whole.items():
        damage(path)
        missing = "" if change else " (missing)"
        said = refused("board", "--check", "--board", board)
        assert f"lprime: {path}{missing}: not the rendering of {board}/results; `lprime publish` renders all again\n" == said
        assert path.read_bytes() == change(data) if change else not path.exists()
        path.write_bytes(data)


def test_check_catches_a_changed_score(published):
    _, board = published
    path = board / "results/tiny/nope.jsonl"
    path.write_text(path.read_text().replace('"exact":0.5', '"exact":0.9', 1))
    said = refused("board", "--check", "--board", board)
    assert said.startswith(f"lprime: {board}/results/tiny/nope.jsonl, {board}/") and " more: not the rendering of" in said


def test_check_catches_a_changed_byte_that_no_page_shows(published):
    _, board = published
    path = board / "results/tiny/nope.jsonl"
    assert '"loss":[[10,2.0]' in path.read_text()
    path.write_text(path.read_text().replace('"loss":[[10,2.0]', '"loss":[[10,3.0]', 1))
    assert refused("board", "--check", "--board", board).startswith(f"lprime: {path}: not the rendering of")


@pytest.mark.parametrize("name", ["pages/gone.md", "images/tiny/old.png", "images/older/pages/x.svg"])
def test_check_catches_leftover_files(published, name):
    _, board = published
    (board / name).parent.mkdir(parents=True, exist_ok=True)
    (board / name).write_text("left")
    assert f"lprime: {board / name} (left over): not the rendering of" in refused("board", "--check", "--board", board)


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
    assert "holiday.png (left over)" in refused("board", "--check", "--board", board)
    assert not list((board / "images/tiny/pages").glob("my*"))


ALIEN = [f'{{"drawn with": {{}}, "results": {{}}, "files": {{"{path}": "y"}}}}'
         for path in ("../../x", "", "__init__.py", "results/tiny/nope.jsonl", "/etc/x", "images/../board.py")]  # fmt: skip


@pytest.mark.parametrize("text", ["", "{}", "[]", *ALIEN, "\x00"])
def test_a_broken_manifest_is_named(published, text):
    _, board = published
    (board / MANIFEST).write_text(text)
    for command in (["board", "--check"], ["publish"]):
        assert f"{board / MANIFEST} was not written by `lprime publish`" in refused(*command, "--board", board)
    assert (board / "results/tiny/nope.jsonl").exists()


def test_a_missing_manifest_is_named(published):
    _, board = published
    (board / MANIFEST).unlink()
    assert f"{board / MANIFEST} is missing" in refused("board", "--check", "--board", board)


def test_a_board_without_results_is_refused(published):
    _, board = published
    shutil.rmtree(board / "results/tiny")
    for command in (["board", "--check"], ["publish"]):
        assert f"nothing is published under {board}; expected results/" in refused(*command, "--board", board)


def test_bad_input_is_one_line(published, tmp_path):
    out, board = published
    assert "unknown suite 'smal'; did you mean 'small'" in refused("publish", "smal", "--out", out, "--board", board)
    assert "no results of suite quick" in refused("publish", "quick", "--out", out, "--board", board)
    assert "unknown setting of rope 'bas'" in refused(
        "publish", "tiny", "--encoding", "rope(bas=1)", "--out", out, "--board", board
    )
    (tmp_path / "file").write_text("kept")
    assert "cannot write" in refused("publish", "tiny", "--out", out, "--board", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"


def test_failures_are_counted(tmp_path):
    out, board = tmp_path / "runs", tmp_path / "board"
    store(out, [result(suite())])
    store_failure(out, result(suite(), seed=1), "boom")
    said = lines("publish", "tiny", "--out", out, "--board", board, "--no-measure")[0]
    assert said == "tiny: 1 run added, 0 published before, 1 failed without a result"


def test_cards_are_measured_for_known_encodings(tmp_path, monkeypatch):
    measured = []
    monkeypatch.setattr(measure, "measure_encoding", lambda cls: measured.append(cls.info.name))
    out, board = tmp_path / "runs", tmp_path / "board"
    store(out, [result(suite()), result(suite(), encoding="my|pe")])
    lines("publish", "tiny", "--out", out, "--board", board)
    assert measured == ["nope"]
    page = (board / "pages/nope.md").read_text()
    assert "| formula | `s_ij = q_i·k_j/√d` |" in page
    assert "formula" not in (board / "pages/my+7cpe.md").read_text()
