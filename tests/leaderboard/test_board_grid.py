"""Reading results, grouping them into grids, and refusing contradictions."""

import json
import os
import subprocess
import sys

import pytest
from synthetic_results import CURVE, failure, full, only_grid, place, result, store, store_failure, suite

from bench.suites.suite import load_suite
from leaderboard.data import collect, grid
from leaderboard.stats import summary
from tasks import InputError


def test_a_board_needs_neither_torch_nor_matplotlib_to_be_imported():
    code = "import sys, leaderboard.render.board; "
    code += "print([m for m in ('torch', 'matplotlib', 'bench.encodings') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_collect_finds_every_run_and_nothing_else(tmp_path):
    of = suite()
    runs = full(of, {"nope": CURVE, "rope": CURVE})
    store(tmp_path, runs)
    folder = place(tmp_path, runs[0])
    for stray in (
        tmp_path / "tiny" / "board.md",
        tmp_path / "tiny" / "parity" / "result.json",
        tmp_path / "tiny" / "parity" / "nope" / "notes" / "result.json",
        tmp_path / "tiny" / "parity" / "nope" / "seed-01" / "result.json",
        tmp_path / "tiny" / ".parity.tmp" / "nope" / "seed-0" / "result.json",
        folder / ".result.json.x1.tmp",
        folder / "deeper" / "result.json",
    ):
        stray.parent.mkdir(parents=True, exist_ok=True)
        stray.write_text("not a result")
    (found,) = collect.collect(of, tmp_path)
    assert found.all_runs == sorted(runs, key=lambda r: (r.task, r.encoding.name, r.seed))
    assert (found.fingerprint, found.encodings, found.seeds) == (of.fingerprint, ("nope", "rope"), (0, 1, 2))


def test_collect_without_results_gives_advice(tmp_path):
    expected = f"no results of suite tiny under {tmp_path / 'tiny'}; run `lprime run tiny.yaml --out {tmp_path}` first"
    with pytest.raises(InputError) as error:
        collect.collect(suite(), tmp_path)
    assert str(error.value) == expected
    (tmp_path / "tiny" / "sorting" / "nope" / "seed-0").mkdir(parents=True)
    with pytest.raises(InputError) as error:
        collect.collect(suite(), tmp_path)
    assert str(error.value) == expected


def test_collect_of_an_unknown_suite_names_the_nearest(tmp_path):
    with pytest.raises(InputError, match="unknown suite 'quikc'; did you mean 'quick'"):
        collect.collect("quikc", tmp_path)


def test_collect_by_folder_alone_takes_the_grid_from_the_results(tmp_path):
    of = suite()
    runs = [result(of, "sorting", "rope", 1), result(of, "parity", "nope", 4)]
    store(tmp_path, runs)
    (found,) = collect.collect("tiny", tmp_path)
    assert found.suite is None
    assert [c.task for c in found.columns] == ["parity", "sorting"]
    assert (found.encodings, found.seeds, found.columns[0].lengths) == (("nope", "rope"), (1, 4), (2, 4, 6, 8))


def test_collect_by_the_name_of_a_shipped_suite_takes_the_grid_from_the_suite(tmp_path):
    quick = load_suite("quick")
    store(tmp_path, [result(quick, "sorting", exact=[1.0] * len(quick.test_lengths("sorting")))])
    (found,) = collect.collect("quick", tmp_path)
    assert found.suite == quick and len(found.columns) == len(quick.tasks)


@pytest.mark.parametrize("cut", [0, 40, -3])
def test_collect_refuses_a_cut_result(tmp_path, cut):
    run = result(suite())
    store(tmp_path, [run])
    path = place(tmp_path, run) / "result.json"
    path.write_text(path.read_text()[:cut])
    with pytest.raises(InputError, match=r"result\.json is not a whole result"):
        collect.collect(suite(), tmp_path)


@pytest.mark.parametrize(("part", "other"), [(0, "parity"), (1, "alibi"), (2, "seed-7")])
def test_collect_refuses_a_result_in_the_place_of_another(tmp_path, part, other):
    run = result(suite(), "sorting", "nope", 0)
    parts = ["sorting", "nope", "seed-0"]
    parts[part] = other
    path = tmp_path / "tiny" / os.path.join(*parts) / "result.json"
    path.parent.mkdir(parents=True)
    path.write_text(run.model_dump_json())
    with pytest.raises(InputError) as error:
        collect.collect(suite(), tmp_path)
    wrong = f"{path} holds the result of tiny/sorting/nope/seed-0, expected tiny/{'/'.join(parts)}; "
    assert str(error.value).startswith(wrong)


def test_collect_refuses_the_results_of_another_suite(tmp_path):
    store(tmp_path, [result(suite())])
    (tmp_path / "tiny").rename(tmp_path / "other")
    with pytest.raises(InputError, match="holds the result of tiny/sorting/nope/seed-0"):
        collect.collect(suite(name="other"), tmp_path)


def test_collect_reads_failures_and_refuses_broken_ones(tmp_path):
    of = suite()
    run = result(of, "sorting", "rope", 2)
    store_failure(tmp_path, run, "out of memory")
    (found,) = collect.collect(of, tmp_path)
    assert {key: value.error for key, value in found.failures.items()} == {("sorting", "rope", 2): "out of memory"}
    (place(tmp_path, run) / "failure.json").write_text(json.dumps({"finished": "2025"}))
    with pytest.raises(InputError, match=r"failure\.json is not a failure report \(error: Field required\)"):
        collect.collect(of, tmp_path)


def test_a_result_replaces_an_earlier_failure():
    of = suite()
    failures = {("sorting", "nope", 0): failure("first try"), ("sorting", "nope", 1): failure("again")}
    assert list(only_grid(of, [result(of, seed=0)], failures).failures) == [("sorting", "nope", 1)]


def test_duplicate_runs_are_refused():
    of = suite()
    with pytest.raises(InputError, match="result tiny/sorting/nope/seed-0: there are two results of this run"):
        grid.build_grids(of, [result(of), result(of, exact=(1, 1, 1, 1))], {})


def test_results_tested_on_different_examples_are_refused_within_a_fingerprint_only():
    of = suite()
    other = result(of, encoding="rope", data_hash="another")
    with pytest.raises(InputError) as error:
        grid.build_grids(of, [result(of), other], {})
    assert str(error.value) == (
        "result tiny/sorting/rope/seed-0 and result tiny/sorting/nope/seed-0 were tested on different examples (data_hash); "
        "run one again"
    )
    assert len(grid.build_grids(of, [result(of), other.model_copy(update={"fingerprint": "older"})], {})) == 2
    assert len(grid.build_grids(of, [result(of), result(of, "parity", data_hash="another")], {})) == 1


@pytest.mark.parametrize("change", [{"variant": "repeat"}, {"train_length": 7}])
def test_results_of_different_settings_are_refused(change):
    of = suite()
    with pytest.raises(InputError, match="differ in variant, L, test lengths or chance"):
        grid.build_grids(None, [result(of), result(of, seed=1, **change)], {})
    with pytest.raises(InputError, match=rf"{next(iter(change))} is .*, but suite tiny has"):
        grid.build_grids(of, [result(of, **change)], {})


def test_results_at_other_lengths_than_the_suite_are_refused():
    of = suite()
    run = result(of)
    cut = run.model_copy(update={"scores": run.scores[:3]})
    with pytest.raises(InputError, match=r"lengths is \(3, 6, 9\), but suite tiny has \(3, 6, 9, 12\)"):
        grid.build_grids(of, [cut], {})
    with pytest.raises(InputError, match="sorting/nope/seed-1 and result tiny/sorting/nope/seed-0 differ in"):
        grid.build_grids(None, [run, cut.model_copy(update={"seed": 1})], {})


def test_a_task_that_the_suite_lacks_is_refused():
    of, wider = suite(), suite(tasks=[{"task": "copying", "variant": "repeat", "train_length": 4}])
    stray = result(wider, "copying", fingerprint=of.fingerprint)
    with pytest.raises(InputError, match=r"copying/nope/seed-0: suite tiny has no such task; expected one of: parity, sorting"):
        grid.build_grids(of, [stray], {})


@pytest.mark.parametrize("keep", [slice(2), slice(2, 4)])
def test_scores_must_cover_both_sides_of_l(keep):
    run = result(suite())
    with pytest.raises(InputError, match="expected scores up to L = 6 and past it, got lengths"):
        grid.build_grids(None, [run.model_copy(update={"scores": run.scores[keep]})], {})


def test_grids_of_different_fingerprints_never_share_runs():
    of = suite()
    older = full(of, {"rope": CURVE}, fingerprint="older", suite_version=1, finished="2024-01-01T00:00:00Z")
    oldest = full(of, {"rope": CURVE}, fingerprint="oldest", suite_version=1, finished="2023-01-01T00:00:00Z")
    grids = grid.build_grids(of, [*oldest, *full(of, {"nope": CURVE}), *older], {})
    assert [g.fingerprint for g in grids] == [of.fingerprint, "older", "oldest"]
    for g in grids:
        assert {r.fingerprint for r in g.all_runs} == {g.fingerprint}
        assert len(g.all_runs) == 6
    assert [g.encodings for g in grids] == [("nope",), ("rope",), ("rope",)]


def test_a_suite_whose_results_are_all_of_another_fingerprint_gets_an_empty_grid_first():
    of = suite()
    first, second = grid.build_grids(of, [result(of, fingerprint="older")], {("sorting", "nope", 1): failure("x")})
    assert (first.fingerprint, first.runs, second.fingerprint) == (of.fingerprint, {}, "older")
    assert list(first.failures) == [("sorting", "nope", 1)] and not second.failures


def test_extra_encodings_and_seeds_are_included_and_encodings_that_nobody_ran_are_not():
    of = suite()
    found = only_grid(of, [result(of, encoding="zebra"), result(of, encoding="alibi"), result(of, seed=9)])
    assert found.encodings == ("nope", "alibi", "zebra")
    assert [r.seed for r in found.runs["sorting", "nope"]] == [9]


def test_the_order_of_files_does_not_matter():
    of = suite()
    runs = full(of, {"nope": CURVE, "rope": CURVE, "alibi": CURVE})
    assert grid.build_grids(of, runs, {}) == grid.build_grids(of, runs[::-1], {})


def test_cells_count_seeds():
    of = suite()
    runs = [result(of, seed=1), result(of, seed=9)]
    found = only_grid(of, runs, {("sorting", "nope", 2): failure("x")})
    (row,) = summary.summarise(found)["standard"]
    cell = row.cells["sorting"]
    assert (cell.seeds, cell.failed, cell.absent, cell.asked, cell.state) == ((1, 9), (2,), (0,), 4, "done")
    assert row.cells["parity"].state == "missing"


def test_a_diverged_run_counts_as_zero():
    of = suite()
    runs = [result(of, seed=0), result(of, seed=1, exact=(0, 0, 0, 0), status="diverged"), result(of, seed=2)]
    row = summary.summarise(only_grid(of, runs))["standard"][0]
    cell = row.cells["sorting"]
    assert cell.exact.tolist() == [[1, 1, 0.5, 0.25], [0, 0, 0, 0], [1, 1, 0.5, 0.25]]
    assert cell.scores.tolist() == pytest.approx([0.3962, 0, 0.3962], abs=1e-4)  # .5 and .25, weighted log 1.5 to log 2/1.5
    assert cell.score[0] == pytest.approx(0.3962 * 2 / 3, abs=1e-4)
    assert cell.in_distribution == pytest.approx(2 / 3) and cell.flagged
    # Means 2/3 at L and 1/3 at 1.5 L: half way between the two in log l. Chance is next to nothing.
    assert cell.reach == (pytest.approx(1.5**0.5, abs=1e-3), "")


def test_failures_of_another_version_are_not_in_the_newest_grid():
    of, older = suite(version=2), suite()
    fail = {
        ("sorting", "nope", 1): failure("now").model_copy(update={"fingerprint": of.fingerprint}),
        ("sorting", "nope", 2): failure("then").model_copy(update={"fingerprint": older.fingerprint}),
    }
    for given in (None, of):
        assert list(grid.build_grids(given, [result(of, seed=0)], fail)[0].failures) == [("sorting", "nope", 1)]
