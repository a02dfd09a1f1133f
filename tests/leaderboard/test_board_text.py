"""The text of a suite's board."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from board_helpers import cells, in_full, rows_of, whole_board
from synthetic_results import CURVE, failure, full, only_grid, record, result, store, suite, timings

from leaderboard.data import grid
from leaderboard.data.grid import RelativeCost
from leaderboard.format import ranking_title
from leaderboard.render import board, task_metrics
from leaderboard.stats import summary
from tasks import InputError


def golden_grids():
    """A finished encoding, missing runs, a divergence, a failure, another ranking class and another fingerprint."""
    of = suite()
    runs = []
    for seed, last in enumerate((0.6, 0.7, 0.8)):
        runs.append(result(of, "parity", "nope", seed, (1, 1, 0.9, last)))
        runs.append(result(of, "sorting", "nope", seed, (1, 0.96, 0.5, 0.1)))
        runs.append(result(of, "parity", "rope", seed, (1, 0.88, 0.5, 0.4), timings=timings(20)))
        lengths = "offset 99, as published"
        aware = record("abacus", ranking="task-aware", settings={"k": 4}, source="official code", lengths=lengths)
        for task in ("parity", "sorting"):
            runs.append(
                result(of, task, aware, seed, (1, 1, 1, 1), parameters={"model": 9, "encoding": 64}, timings=timings(15))
            )
    runs.append(result(of, "sorting", "rope", 0, (1, 1, 0.3, 0), timings=timings(20)))
    runs.append(result(of, "sorting", "rope", 2, (0, 0, 0, 0), timings=timings(20), status="diverged", steps=12))
    runs.append(result(of, "parity", record("my|pe", link="javascript:alert(1)"), 0, (1, 1, 0.25, 0.25)))
    runs.append(result(of, "sorting", "nope", 5, (1, 1, 1, 1), fingerprint="0123456789abcdef", data_hash="other"))
    return grid.build_grids(of, runs, {("sorting", "my|pe", 0): failure("CUDA error: <out> of\nmemory | 8 GiB")})


def test_the_board_matches_the_golden_file():
    """To update the file: write ``whole_board(golden_grids())`` to it and read the diff."""
    text = whole_board(golden_grids()).replace(suite().fingerprint, "0" * 16)  # moves with every version of the harness
    assert text == (Path(__file__).parent / "golden_board.md").read_text()


def test_relative_costs_come_from_the_card():
    """Relative costs come from the card if it has them, not from the timings of runs of different days."""
    of = suite()
    runs = [result(of, task, name, seed, (1, 1, 1, 0.5), timings=timings(10 if name == "nope" else 30))
            for task in ("parity", "sorting") for name in ("nope", "rope", "t5") for seed in (0, 1)]  # fmt: skip
    costs = {"rope": RelativeCost(1.25, 1.375, 1.5, False), "t5": RelativeCost(2.0, 2.5, 0.75, True)}
    text = whole_board([replace(only_grid(of, runs), costs=costs)])
    rows = {row["encoding"].split("]")[0].strip("["): row for row in in_full(text)}
    assert [rows[name]["step time, nope = 1"] for name in ("nope", "rope", "t5")] == ["1.00", "1.25", "2.00 ‡"]
    assert [rows[name]["step time, nope = 1, l > L"] for name in ("nope", "rope", "t5")] == ["–", "1.38", "2.50"]
    assert [rows[name]["memory, nope = 1"] for name in ("nope", "rope", "t5")] == ["–", "1.50", "0.75"]


def test_main_table_matches_numbers_computed_by_hand():
    of = suite()
    runs = []
    for seed, last in enumerate((0.6, 0.7, 0.8)):
        runs.append(result(of, "parity", "nope", seed, (1, 1, 0.9, last)))
        runs.append(result(of, "sorting", "nope", seed, (1, 0.96, 0.5, 0.1)))
    (row,) = in_full(whole_board([only_grid(of, runs)]))
    # From L to 1.5 L weighs a = log 1.5/log 2 = .585, to 2 L the rest. Parity, corrected for chance ½: .8·a and .2, .4 or .6 of
    # the rest, so .551, .634 and .717: s = .0830, so ± 4.3027·s/√3 = .206. Sorting: .5·a + .1·(1 − a) at each seed.
    assert row["parity"] == ".634 ± .206"
    assert row["sorting"] == ".334 ± .000"
    # Parity varies alone, its mean three equal thirds: ± 4.3027·.0830/√3/2 about (.634 + .334)/2, up to the bootstrap's shape.
    mean, low, high = (float(x) for x in re.findall(r"\.\d+", row["score"]))
    assert mean == 0.484
    assert (mean - low, high - mean) == pytest.approx((0.103, 0.103), abs=0.02)
    # Parity's .8 falls to .4 at 2 L (means), sorting's .96 at L to .5: at 1.5 L it is not under one half yet, but .1 at 2 L is.
    parity, sorting = 1.5 * (2 / 1.5) ** (0.3 / 0.4), 1.5
    assert row["reach"] == f"{(parity * sorting) ** 0.5:.2f}"
    assert row["l ≤ L"] == ".990"
    assert (row["tier"], row["encoding"], row["seeds"], row["step time, nope = 1"]) == ("–", "nope", "3", "1.00")
    assert row["paper"] == "[All about nope] (2020)"


def test_one_seed_has_no_interval():
    of = suite(seeds=[0])
    (row,) = in_full(whole_board([only_grid(of, full(of, {"nope": (1, 1, 0.5, 0.3)}))]))
    assert (row["sorting"], row["score"], row["IQM"], row["seeds"]) == (".417", ".208", ".208", "1")


def test_equal_printed_scores_are_ordered_by_name():
    of = suite(seeds=[0], encodings=["d", "c", "b", "a"])
    # Sorting's chance is far under the printed precision; a and c differ by .0001 in score.
    runs = full(of, {"a": (1, 1, 0.5, 0.5), "b": (1, 1, 0.1, 0.1), "c": (1, 1, 0.5001, 0.5001), "d": (1, 1, 1, 1)})
    table = in_full(whole_board([only_grid(of, runs)]))
    assert [row["encoding"] for row in table] == ["d", "a", "c", "b"]


def test_missing_and_failed_cells_are_named_and_never_ranked():
    of = suite()
    runs = full(of, {"nope": (1, 1, 0.1, 0.1)}) + [result(of, "sorting", "rope", seed, (1, 1, 1, 1)) for seed in (0, 1)]
    text = whole_board([only_grid(of, runs, {("parity", "rope", 1): failure("boom")})])
    first, last = in_full(text)
    assert first["encoding"] == "nope"
    # Perfect on the one task it has: still no score, no tier and no mean over fewer tasks.
    assert (last["tier"], last["encoding"], last["score"], last["l ≤ L"]) == ("–", "rope", "incomplete", "–")
    assert (last["reach"], last["IQM"]) == ("–", "–")
    assert (last["parity"], last["sorting"], last["seeds"]) == ("failed", "1.000 (2 of 3 seeds)", "0–2 of 3")
    assert last["step time, nope = 1"] == "–"
    reach = {"encoding": "rope", "geometric mean": "–", "parity": "failed", "sorting": "≥ 2.00"}
    assert cells(text, "## Reach in multiples of L")[1] == reach
    assert cells(text, "## Exact match at l ≤ L")[1]["parity, l ≤ 4"] == "failed"
    assert cells(text, "# Parity, suite tiny")[1] == {"encoding": "rope"} | dict.fromkeys(
        ["score", "reach", "2", "4 = L", "6", "8"], "failed"
    )
    assert "- failed: rope on parity, seed 1: boom\n" in text
    assert "- missing: rope on parity (seeds 0, 2); sorting (seed 2)\n" in text
    missing = whole_board([only_grid(of, runs)])
    assert in_full(missing)[1]["parity"] == "missing"


def test_failed_seeds_are_counted_in_their_cell():
    of = suite()
    row = rows_of(of, [result(of, seed=0)], {("sorting", "nope", 1): failure("x")})["nope"]
    assert task_metrics.SCORE.text(row.cells["sorting"], row) == ".396 (1 of 3 seeds, 1 failed)"


def test_seeds_missing_from_all_cells_are_stated_once():
    of = suite()
    text = whole_board([only_grid(of, [r for r in full(of, {"nope": (1, 1, 0.5, 0.5)}) if r.seed == 0])])
    row = in_full(text)[0]
    assert (row["parity"], row["sorting"], row["seeds"]) == (".000", ".500", "1 of 3")


def test_diverged_runs_are_listed_and_count_as_zero():
    of = suite(seeds=[0, 1])
    runs = full(of, {"nope": (1, 1, 1, 1)})
    assert runs[0].path == "tiny/parity/nope/seed-0"
    runs[0] = result(of, "parity", "nope", 0, (0, 0, 0, 0), status="diverged", steps=1234)
    text = whole_board([only_grid(of, runs)])
    assert "- diverged: nope on parity, seed 0, after 1,234 steps; counts as zero" in text
    row = in_full(text)[0]
    assert row["parity"] == ".500" and row["l ≤ L"] == ".750 ⚑" and row["seeds"] == "2"


def test_the_flag_marks_tasks_that_were_not_learned():
    of = suite()
    # .95 at both lengths on sorting: at the gate. .95 and .93: under it, on parity alone.
    runs = [result(of, "parity", "nope", s, (0.95, 0.93, 0, 0)) for s in of.seeds]
    runs += [result(of, "sorting", "nope", s, (0.95, 0.95, 0, 0)) for s in of.seeds]
    text = whole_board([only_grid(of, runs)])
    assert in_full(text)[0]["l ≤ L"] == ".945 ⚑"
    assert cells(text, "## Exact match at l ≤ L")[0] == {
        "encoding": "nope",
        "parity, l ≤ 4": ".940 ⚑, 3 of 3 under .950",
        "sorting, l ≤ 6": ".950",
    }
    # One seed of three is under it, the mean is not.
    runs = [result(of, "parity", "nope", s, (1, 0.8 if s == 0 else 1, 0, 0)) for s in of.seeds]
    text = whole_board([only_grid(of, runs)])
    assert cells(text, "## Exact match at l ≤ L")[0]["parity, l ≤ 4"] == ".967, 1 of 3 under .950"
    well = whole_board([only_grid(of, full(of, {"nope": (1, 0.95, 0, 0)}))])
    assert "⚑" not in well.split("## How to read this")[0]


def test_chance_is_shown_where_it_matters():
    of = suite()
    text = whole_board([only_grid(of, full(of, {"nope": CURVE}))])
    chance = {"encoding": "*chance*", "score": "", "reach": "", "2": ".500", "4 = L": ".500", "6": ".500", "8": ".500"}
    assert cells(text, "# Parity, suite tiny")[-1] == chance
    assert [row["encoding"] for row in cells(text, "# Sorting, suite tiny")] == ["nope"]


def test_step_time_parameters_and_seeds_that_differ_between_tasks():
    of = suite()
    runs = full(of, {"nope": CURVE})
    for seed, ms in enumerate((20.0, 21.0, 500.0)):
        runs.append(result(of, "parity", "rope", seed, timings=timings(ms), parameters={"model": 9, "encoding": 1024}))
    runs.append(result(of, "sorting", "rope", 0, timings=timings(40), parameters={"model": 9, "encoding": 4096}))
    rope = next(row for row in in_full(whole_board([only_grid(of, runs)])) if row["encoding"] == "rope")
    assert rope["step time, nope = 1"] == "2.90"  # √(21/10 · 40/10)
    assert (rope["parameters"], rope["seeds"]) == ("1,024–4,096", "1–3 of 3")


def test_without_nope_there_is_no_step_time():
    of = suite(encodings=["rope"])
    (row,) = in_full(whole_board([only_grid(of, full(of, {"rope": CURVE}))]))
    assert row["step time, nope = 1"] == "–"


def test_ranking_classes_have_separate_tables_and_ranks():
    of = suite(encodings=["nope"])
    runs = full(of, {"nope": (1, 1, 0.2, 0.2)})
    runs += [
        r.model_copy(update={"encoding": record("abacus", ranking="task-aware")}) for r in full(of, {"abacus": (1, 1, 1, 1)})
    ]
    # Declares nothing, but was trained past L.
    runs += full(of, {"tuned": (1, 1, 0.9, 0.9)}, longest_seen=12)
    classes = summary.summarise(only_grid(of, runs))
    assert {name: [(row.name, row.tier) for row in rows] for name, rows in classes.items()} == {
        "standard": [("nope", 1)],
        "longer": [("tuned", 1)],
        "task-aware": [("abacus", 1)],
    }
    text = whole_board([only_grid(of, runs)])
    shown = {"## Overall": "nope", f"**{ranking_title('longer')}**": "tuned", f"### {ranking_title('task-aware')}": "abacus"}
    for heading, name in shown.items():
        assert [row["encoding"] for row in cells(text, heading)] == [f"[{name}]"]


def test_fingerprints_never_share_a_table():
    of = suite()
    other = full(of, {"rope": (1, 1, 1, 1)}, fingerprint="feedbeef")
    text = whole_board(grid.build_grids(of, full(of, {"nope": CURVE}) + other, {}))
    ours, theirs = text.split("## Version 1, fingerprint `feedbeef`")
    assert "[nope]" in ours and "rope" not in ours
    assert "1.000 ±" not in ours and "1.000 ±" in theirs
    assert f"fingerprint `{of.fingerprint}`" in ours


def test_a_version_without_runs_is_marked():
    of = suite()
    text = whole_board(grid.build_grids(of, full(of, {"nope": CURVE}, fingerprint="feedbeef"), {}))
    assert "No run of this version yet." in text.split("## Version 1")[0]
    assert "## Overall" not in text


def test_cautions():
    of = suite(seeds=[0, 1], encodings=["nope"])
    runs = full(of, {"nope": CURVE})
    assert "## Cautions" not in whole_board([only_grid(of, runs)])
    runs[0] = runs[0].model_copy(update={"device": "NVIDIA H200"})
    runs[1] = runs[1].model_copy(update={"encoding": record("nope", source_sha256="fedcba"), "commit": "0" * 40 + "-dirty"})
    text = whole_board([only_grid(of, runs)])
    assert "settings (a seed is in two if its tasks ran with different ones): nope (seeds 0, 1; seed 1)." in text
    assert "- Step times come from different machines and are not comparable: NVIDIA H200, 1 thread; cpu, 1 thread." in text
    assert f"- The code of 1 of {len(runs)} runs had uncommitted changes." in text
    assert text.count("runs that may have shared a GPU") == 2, "in the answer and among the cautions"


def test_cautions_name_what_was_measured_and_run_on_other_processors():
    names = ["nope", "rope", "t5"]
    of = suite(seeds=[0], encodings=names)
    runs = full(of, dict.fromkeys(names, CURVE))
    costs = {name: RelativeCost(1, 1, 1, False, "cpu (A)") for name in names}
    made = replace(only_grid(of, runs), costs=costs)
    assert "## Cautions" not in whole_board([made])
    text = whole_board([replace(made, costs=costs | {"t5": RelativeCost(2, 2, 1, False, "cpu (B)")})])
    assert "different processors, where they are not the same: t5 on cpu (B); the others on cpu (A)." in text
    elsewhere = [run.model_copy(update={"device": "cpu (B)"}) for run in runs if run.encoding.name == "rope"]
    text = whole_board([replace(made, conditions={"width-128": only_grid(of, elsewhere)})])
    assert "whose rounding differs: some of rope on cpu (B); the others on cpu." in text


def written_text(of, out):
    return "\n".join(path.read_text() for path in board.write_board(of, out)[1])


@pytest.mark.usefixtures("undrawn")
def test_a_board_can_be_written_without_its_suite(tmp_path):
    of = suite()
    store(tmp_path, full(of, {"nope": CURVE, "rope": (1, 1, 0.2, 0.1)}))
    expected = in_full(written_text(of, tmp_path))
    assert len(expected) == 2 and in_full(written_text("tiny", tmp_path)) == expected


def test_every_figure_on_the_board_is_written(tmp_path):
    of = suite()
    store(tmp_path, [result(of, "sorting", seed=s) for s in of.seeds])
    pages = board.write_board(of, tmp_path)[1]
    names = ["board.md", "board-details.md", "board-task-parity.md", "board-task-sorting.md"]
    assert pages == [tmp_path / "tiny" / name for name in names]
    shown = re.findall(r'(?:src|srcset)="([^"]*)"', "".join(page.read_text() for page in pages))
    assert set(shown) == {p.name for p in (tmp_path / "tiny").glob("*.svg")}
    assert {"accuracy.svg", "accuracy-sorting.dark.svg"} <= set(shown) and "accuracy-parity.svg" not in shown


def test_writing_where_a_folder_is_in_the_way_is_an_input_error(tmp_path):
    of = suite()
    store(tmp_path, full(of, {"nope": CURVE}))
    (tmp_path / "tiny" / "board.md").mkdir()  # a folder in place of the file: root ignores permissions
    with pytest.raises(InputError, match=r"cannot write .*board\.md"):
        board.write_board(of, tmp_path)


def test_a_run_without_a_step_does_not_hide_the_times_of_others():
    of = suite()
    runs = full(of, {"nope": (1, 1, 0, 0)}, timings=timings(10))
    for task in ("parity", "sorting"):
        runs.append(result(of, task, "rope", 0, (0, 0, 0, 0), status="diverged", steps=0, loss=[], timings=timings(0)))
        runs += [result(of, task, "rope", seed, (1, 1, 0, 0), timings=timings(20)) for seed in (1, 2)]
    rows = {row["encoding"].split("]")[0].strip("["): row for row in in_full(whole_board([only_grid(of, runs)]))}
    assert rows["rope"]["step time, nope = 1"] == "2.00"
