"""Local runs next to published ones: marked, kept apart, and timed relative to local runs of NoPE."""

from types import SimpleNamespace

import pytest
from board_helpers import whole_board
from commands import printed, refused
from synthetic_results import full, result, rows_by_name, store, store_failure, suite, timings

from bench.measure import card as card_of
from leaderboard.data import cards, local_runs
from leaderboard.data import store as published
from leaderboard.data.grid import RelativeCost
from tasks import InputError

THEIRS, MINE = (1, 1, 0.5, 0.25), (1, 1, 0.75, 0.5)


@pytest.fixture
def folders(tmp_path):
    """Local runs of `mine` and `rope`, and a published board with `rope` and `nope`."""
    out, to = tmp_path / "runs", tmp_path / "board"
    store(tmp_path / "theirs", full(suite(), {"nope": THEIRS, "rope": THEIRS}, timings=timings(10)))
    published.publish_runs(suite(), tmp_path / "theirs", to)
    store(out, full(suite(), {"mine": MINE, "rope": MINE}, timings=timings(40)))
    return out, to


def test_local_and_published_rows_share_a_table(folders):
    out, to = folders
    by_name = rows_by_name(local_runs.with_local_runs(suite(), out, to)[0])
    assert list(by_name) == ["mine (local)", "rope (local)", "nope", "rope"], "best first, local or not"
    scores = {name: row.cells["sorting"].score[0] for name, row in by_name.items()}
    assert scores == pytest.approx({"mine (local)": 0.6462, "rope (local)": 0.6462, "nope": 0.3962, "rope": 0.3962}, abs=1e-4)
    assert {name: row.seeds for name, row in by_name["rope"].cells.items()} == {"parity": (0, 1, 2), "sorting": (0, 1, 2)}


def test_costs_are_those_of_the_suite_on_which_they_were_measured():
    cost = SimpleNamespace(step_ratio=1.5, peak_ratio=1.2)
    costs = [cost, SimpleNamespace(step_ratio=2.5, peak_ratio=3.5)]
    measured = SimpleNamespace(suite="small", costs=costs, busy=False, device="cpu (A)")
    found = {"rope": SimpleNamespace(measured=measured), "nope": SimpleNamespace(measured=None)}
    assert cards.relative_costs("small", found) == {"rope": RelativeCost(1.5, 2.5, 3.5, False, "cpu (A)")}
    assert cards.relative_costs("standard", found) == {}


def test_published_rows_have_the_sources_of_their_cards(folders):
    out, to = folders
    told = card_of.Declared(
        authors="A", formula="f", past="p", provenance="o", hooks=[], shift_invariant=True, random=False, source="port",
        lengths="k = 16, as published",
    )  # fmt: skip
    cards.write_cards(to, {"rope": card_of.Card(declared=told)})
    rows = rows_by_name(local_runs.with_local_runs(suite(), out, to)[0])
    assert {name: (row.record.source, row.record.lengths) for name, row in rows.items()} == {
        "rope": ("port", "k = 16, as published"), "nope": ("", ""), "mine (local)": ("", ""), "rope (local)": ("", "")
    }  # fmt: skip


def test_local_times_are_relative_to_local_nope(folders):
    out, to = folders
    assert {name: row.step_time for name, row in rows_by_name(local_runs.with_local_runs(suite(), out, to)[0]).items()} == {
        "nope": 1.0, "rope": 1.0, "mine (local)": None, "rope (local)": None
    }  # fmt: skip
    store(out, full(suite(), {"nope": MINE}, timings=timings(20)))
    assert rows_by_name(local_runs.with_local_runs(suite(), out, to)[0])["mine (local)"].step_time == pytest.approx(2)


def test_another_version_has_its_own_table(folders):
    out, to = folders
    newer = suite(version=2)
    store(out, full(newer, {"mine": MINE}))
    store(out, full(newer, {"rope": MINE}))
    first, second = local_runs.with_local_runs(newer, out, to)
    assert [r.encoding.name for r in first.all_runs[::3]] == ["mine (local)", "rope (local)"] * 2
    assert {r.encoding.name for r in second.all_runs} == {"nope", "rope"}


def test_failed_runs_of_both_and_unverified_runs_are_shown(folders):
    out, to = folders
    store_failure(out, result(suite(), "parity", "broken", 2), "out of memory")
    store_failure(out.parent / "theirs", result(suite(), "parity", "alibi", 1), "out of time")
    claims = full(suite(), {"claimed": MINE})
    published.publish_runs(suite(), out.parent / "theirs", to, claims=claims)
    (grid,) = local_runs.with_local_runs(suite(), out, to)
    text = whole_board([grid], local_runs.NOTE)
    assert "- failed: broken (local) on parity, seed 2: out of memory" in text
    assert "- failed: alibi on parity, seed 1: out of time" in text
    assert grid.unverified.encodings == ("claimed",) and "claimed" not in rows_by_name(grid)
    assert text.split("\n\n")[1] == local_runs.NOTE


def test_without_own_runs_the_published_ones_are_shown(folders, tmp_path):
    (grid,) = local_runs.with_local_runs(suite(), tmp_path / "nowhere", folders[1])
    assert {name for _, name in grid.runs} == {"nope", "rope"}


def test_an_unpublished_suite_is_refused(folders, tmp_path):
    out, _ = folders
    with pytest.raises(
        InputError, match=r"no runs of suite tiny are published under .*nowhere; expected .*nowhere/results/tiny/"
    ):
        local_runs.with_local_runs(suite(), out, tmp_path / "nowhere")


@pytest.mark.usefixtures("undrawn")
def test_the_command_writes_the_board_of_both(folders):
    out, to = folders
    before = {p: p.read_bytes() for p in to.rglob("*") if p.is_file()}
    for arguments, shown in ((["--published", "--board", to], True), ([], False)):
        text = printed("board", "tiny", "--out", out, *arguments)
        assert f"\nWritten: {out}/tiny/board.md\n" in text
        page = (out / "tiny/board.md").read_text().replace("<wbr>", "")
        assert ("mine (local)" in text, "mine (local)" in page, "[nope]" in page) == (shown, shown, shown)
    assert {p: p.read_bytes() for p in to.rglob("*") if p.is_file()} == before, "published files do not change"
    assert "expected --check or --published, got both" in refused("board", "--check", "--published")
