"""Runs of one's own beside the published ones: marked, never mixed with them, and measured by what ran here too."""

import pytest
from synthetic_results import full, result, store, store_failure, suite

from bench.cli import main
from bench.results import Timings
from leaderboard import board, local
from leaderboard import store as published
from leaderboard.summary import summarise
from tasks import InputError

THEIRS, MINE = (1, 1, 0.5, 0.25), (1, 1, 0.75, 0.5)


def timed(ms: float) -> Timings:
    return Timings(step_ms=ms, train_s=1, evaluate_s=1, total_s=2)


@pytest.fixture
def folders(tmp_path):
    """Runs of one's own, of `rope` too, and a board with `rope` and `nope`."""
    out, to = tmp_path / "runs", tmp_path / "board"
    store(tmp_path / "theirs", full(suite(), {"nope": THEIRS, "rope": THEIRS}, timings=timed(10)))
    published.publish(suite(), tmp_path / "theirs", to)
    store(out, full(suite(), {"mine": MINE, "rope": MINE}, timings=timed(40)))
    return out, to


def rows(grids) -> dict:
    return {row.name: row for group in summarise(grids[0]).values() for row in group}


def test_rows_stand_beside_each_other_and_say_whose_they_are(folders):
    out, to = folders
    found = rows(local.beside(suite(), out, to))
    assert list(found) == ["mine (local)", "rope (local)", "nope", "rope"], "best first, whoever ran it"
    scores = {name: row.cells["sorting"].ood[0] for name, row in found.items()}
    assert scores == {"mine (local)": 0.625, "rope (local)": 0.625, "nope": 0.375, "rope": 0.375}
    assert {name: row.seeds for name, row in found["rope"].cells.items()} == {"parity": (0, 1, 2), "sorting": (0, 1, 2)}


def test_times_are_compared_with_those_of_the_same_machine(folders):
    out, to = folders
    assert {name: row.step_time for name, row in rows(local.beside(suite(), out, to)).items()} == {
        "nope": 1.0, "rope": 1.0, "mine (local)": None, "rope (local)": None
    }  # fmt: skip
    store(out, full(suite(), {"nope": MINE}, timings=timed(20)))
    assert rows(local.beside(suite(), out, to))["mine (local)"].step_time == pytest.approx(2)


def test_another_version_has_a_table_of_its_own(folders):
    out, to = folders
    newer = suite(version=2)
    store(out, full(newer, {"mine": MINE}))
    store(out, full(newer, {"rope": MINE}))
    first, second = local.beside(newer, out, to)
    assert [r.encoding.name for r in first.all_runs[::3]] == ["mine (local)", "rope (local)"] * 2
    assert {r.encoding.name for r in second.all_runs} == {"nope", "rope"}


def test_failures_of_ones_own_are_marked_too(folders):
    out, to = folders
    store_failure(out, result(suite(), "parity", "broken", 2), "out of memory")
    text = board.render(local.beside(suite(), out, to), local.NOTE)
    assert "- failed: broken (local) on parity, seed 2: out of memory" in text
    assert text.split("\n\n")[1] == local.NOTE


def test_nothing_published_says_so(folders, tmp_path):
    out, _ = folders
    with pytest.raises(
        InputError, match=r"nothing of suite tiny is published under .*nowhere; expected .*nowhere/results/tiny/"
    ):
        local.beside(suite(), out, tmp_path / "nowhere")


def test_the_command_writes_the_board_of_both(folders, capsys):
    out, to = folders
    before = {p: p.read_bytes() for p in to.rglob("*") if p.is_file()}
    for arguments, shown in ((["--published", "--to", to], True), ([], False)):
        with pytest.raises(SystemExit) as done:
            main([str(a) for a in ["board", "tiny", "--out", out, *arguments]])
        printed = capsys.readouterr().out
        assert done.value.code == 0 and (out / "tiny/board.md").read_text() in printed
        assert ("mine (local)" in printed, "[nope]" in printed) == (shown, shown)
    assert {p: p.read_bytes() for p in to.rglob("*") if p.is_file()} == before, "what is published stays"
    with pytest.raises(SystemExit) as done:
        main(["board", "--check", "--published"])
    assert done.value.code == 2 and "expected --check or --published, got both" in capsys.readouterr().err
