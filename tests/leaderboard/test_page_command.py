"""``lprime board --html``: the pages that it writes, and input that it refuses."""

from board_helpers import page_runs
from commands import refused, run_command
from synthetic_results import store


def test_the_command_writes_the_page_of_own_runs_or_published_ones(tmp_path, undrawn):
    # Built-in encodings have cards, whose declarations the published page shows.
    runs = [
        run.model_copy(update={"encoding": run.encoding.model_copy(update={"name": f"my_{run.encoding.name}"}), "sealed": True})
        for run in page_runs()[1]
    ]
    store(tmp_path / "runs", runs)
    for arguments in (["publish", "tiny", "--out", tmp_path / "runs", "--board", tmp_path / "board", "--no-measure"],
                      ["board", "--html", tmp_path / "a", "--out", tmp_path / "runs"],
                      ["board", "tiny", "--html", tmp_path / "a", "--out", tmp_path / "runs"],
                      ["board", "--html", tmp_path / "b", "--published", "--board", tmp_path / "board"]):  # fmt: skip
        code, shown, err = run_command(*arguments)
        assert code == 0, err
    assert shown.splitlines()[-1] == f"written to {tmp_path / 'b' / 'index.html'}"
    assert (tmp_path / "a/index.html").read_bytes() == (tmp_path / "b/index.html").read_bytes()
    assert {p.relative_to(tmp_path / "a").as_posix() for p in (tmp_path / "a").rglob("*.*")} == {
        "index.html", "pages/my_abacus.html", "pages/my_alibi.html", "pages/my_nope.html", "pages/my_rope.html",
    }  # fmt: skip


def test_bad_input_is_one_line(tmp_path):
    _, runs = page_runs()
    store(tmp_path / "runs", runs)
    (tmp_path / "file").write_text("x")
    (tmp_path / "index.html").write_text("<h1>somebody's own</h1>")
    out = ["--out", tmp_path / "runs"]
    assert "is a file" in refused("board", "--html", tmp_path / "file", *out)
    assert "not a page of lprime" in refused("board", "--html", tmp_path, *out)
    (tmp_path / "unreadable/index.html").mkdir(parents=True)
    assert "not a page of lprime" in refused("board", "--html", tmp_path / "unreadable", *out)
    assert (tmp_path / "index.html").read_text() == "<h1>somebody's own</h1>"
    (tmp_path / "other/pages").mkdir(parents=True)
    for name in ("nope", "mine"):
        (tmp_path / f"other/pages/{name}.html").write_text("<h1>somebody's own</h1>")
    assert "other/pages/nope.html is not a page of lprime" in refused("board", "--html", tmp_path / "other", *out)
    assert not (tmp_path / "other/index.html").exists()
    assert "got both" in refused("board", "--check", "--html", tmp_path / "page")
    assert not (tmp_path / "page").exists()
