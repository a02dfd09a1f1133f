"""Order, ranks and significance on the board."""

from dataclasses import replace

import numpy as np
import pytest
from board_helpers import cells, rows_of, whole_board
from synthetic_results import CURVE, full, only_grid, record, result, rows_by_name, suite

from leaderboard.render import columns, tables
from leaderboard.stats import bootstrap, significance, summary
from leaderboard.stats import scores as st

SEEDS = [0, 1, 2, 3, 4]
JITTER = (-0.02, -0.01, 0, 0.01, 0.02)


def runs_of(of, levels):
    """Runs of each encoding at its level on each task (exact match at all lengths past L), with a small offset by seed."""
    return [
        result(of, task.task, name, seed, (1, 1, level + jitter, level + jitter))
        for name, its in levels.items()
        for task, level in zip(of.tasks, its, strict=True)
        for seed, jitter in zip(of.seeds, JITTER, strict=False)
    ]


def grid_of(levels, **changes):
    of = suite(seeds=SEEDS, encodings=sorted(levels), **changes)
    return only_grid(of, runs_of(of, levels))


def test_rows_that_are_not_separated_share_a_tier():
    # a and b overlap on both tasks; every run of c is below both, and every run of d below all.
    grid = grid_of({"d": (0.6, 0.1), "c": (0.7, 0.4), "b": (0.9, 0.8), "a": (0.905, 0.805)})
    rows = summary.summarise(grid)["standard"]
    assert [(row.name, row.tier, row.places) for row in rows] == [
        ("a", 1, (1, 2)),
        ("b", 1, (1, 2)),
        ("c", 2, (3, 3)),
        ("d", 3, (4, 4)),
    ]
    assert [row["tier"] for row in cells(whole_board([grid]), "## Overall")] == ["1", "1", "2", "3"]


def test_p_is_adjusted_for_all_pairs_of_the_board():
    grid = grid_of({"a": (0.9, 0.8), "b": (0.75, 0.5), "c": (0.65, 0.2)})
    a, b, c = summary.summarise(grid)["standard"]
    ab, ac, bc = significance.separation_ps([row.scores for row in (a, b, c)])
    assert a.ps == {"b": ab, "c": ac} and c.ps == {"a": ac, "b": bc}
    assert (a.below.name, a.below.separated, a.below.improvement, a.below.p) == ("b", "above", 1, ab)
    assert c.below is None and a.against is None  # there is no rope


def test_rows_of_all_tables_are_compared_with_rope():
    of = suite(seeds=SEEDS, encodings=["rope", "nope", "alibi"])
    runs = runs_of(of, {"rope": (0.8, 0.5), "nope": (0.65, 0.1), "alibi": (0.81, 0.5)})
    aware = record("abacus", ranking="task-aware")
    runs += [r.model_copy(update={"encoding": aware}) for r in runs_of(of, {"abacus": (0.98, 0.9)})]
    grid = only_grid(of, runs)
    found = rows_by_name(grid)
    assert {name: row.against and (row.against.name, row.against.separated) for name, row in found.items()} == {
        "alibi": ("rope", None),
        "rope": None,
        "nope": ("rope", "below"),
        "abacus": ("rope", "above"),
    }
    assert set(found["abacus"].ps) == {"rope", "nope", "alibi"}, "one family for all tables"
    assert found["abacus"].places == (1, 1) and found["abacus"].below is None
    table = {row["encoding"]: row for row in cells(whole_board([grid]), "## Significance")}
    low, high = bootstrap.improvement_interval(found["alibi"].scores, found["rope"].scores)
    mean = st.probability_of_improvement(found["alibi"].scores, found["rope"].scores)
    assert table["alibi"]["P(better)"] == f"{mean:.3f} [{low:.3f}, {high:.3f}]".replace("0.", ".")
    assert table["alibi"] | {"P(better)": "", "P(better than rope)": ""} == {
        "encoding": "alibi",
        "places": "1–2",
        "row below": "rope",
        "P(better)": "",
        "p": f"{found['alibi'].below.p:.3f}".removeprefix("0"),
        "separated": "no",
        "P(better than rope)": "",
        "p, rope": f"{found['alibi'].below.p:.3f}".removeprefix("0"),
        "separated, rope": "no",
    }
    assert [table["nope"][c] for c in ("p, rope", "separated, rope")] == ["<.001", "yes, below"]


def test_order_is_by_what_is_tested_as_printed():
    tasks = [{"task": task, "variant": v, "train_length": 6} for task, v in (("sorting", "unique"), ("copying", "repeat"))]
    tasks.append({"task": "key_retrieval", "variant": "needle", "train_length": 6})
    uneven, even = summary.summarise(grid_of({"even": (0.5, 0.5, 0.5), "uneven": (0.2, 0.4, 0.97)}, tasks=tasks))["standard"]
    assert (uneven.name, even.name) == ("uneven", "even")
    assert even.iqm > uneven.iqm and even.score < uneven.score
    of = suite(seeds=[0], encodings=["d", "c", "b", "a"], tasks=[{"task": "sorting", "variant": "unique", "train_length": 6}])
    runs = [result(of, "sorting", n, 0, (1, 1, x, x)) for n, x in {"d": 0.5004, "c": 0.5, "b": 0.5, "a": 0.6}.items()]
    assert [row.name for row in summary.summarise(only_grid(of, runs))["standard"]] == ["a", "b", "c", "d"]


def test_a_separation_needs_a_small_p():
    a, b = summary.summarise(grid_of({"a": (0.9, 0.8), "b": (0.75, 0.5)}))["standard"]
    a, b = (replace(row, ps={other: 0.05}) for row, other in ((a, "b"), (b, "a")))
    assert (summary.separation(a, b), summary.separation(b, a)) == ("above", "below")
    assert summary.separation(replace(a, ps={"b": 0.0501}), b) is summary.separation(replace(a, ps={}), b) is None


def test_boards_of_single_seeds_have_no_tests():
    of = suite(seeds=[0], encodings=["rope", "nope"])
    grid = only_grid(of, full(of, {"nope": (1, 1, 0.5, 0.3), "rope": (1, 1, 0.9, 0.9)}))
    rows = summary.summarise(grid)["standard"]
    assert [(row.name, row.tier, row.places, row.below, row.against) for row in rows] == [
        ("rope", None, None, None, None),
        ("nope", None, None, None, None),
    ]
    assert tables.significance_table(rows) == "" and "## Significance" not in whole_board([grid])


def test_one_entry_of_several_seeds_cannot_be_tested():
    of = suite(seeds=SEEDS, encodings=["nope", "rope"])
    runs = runs_of(of, {"nope": (0.9, 0.8)})
    runs += [result(of, task, "rope", 0, (1, 1, 0.99, 0.99)) for task in ("parity", "sorting")]
    rows = summary.summarise(only_grid(of, runs))["standard"]
    assert [(row.name, row.tier, row.below) for row in rows] == [("rope", None, None), ("nope", None, None)]


def test_an_entry_of_one_seed_is_not_tested_and_not_separated():
    of = suite(seeds=SEEDS, encodings=["nope", "rope", "alibi"])
    runs = runs_of(of, {"nope": (0.9, 0.8), "rope": (0.7, 0.2)}) + [
        result(of, task, "alibi", 0, (1, 1, 0.85, 0.5)) for task in ("parity", "sorting")
    ]
    rows = summary.summarise(only_grid(of, runs))["standard"]
    assert [(row.name, row.tier) for row in rows] == [("nope", 1), ("alibi", None), ("rope", 2)]
    assert rows[0].below.name == "rope", "the next row that was tested"
    assert rows[1].below is None and rows[0].below.interval is not None


def test_numbers_of_seeds_may_differ():
    """By the rule for seeds, rows that are not separated from the first have more of them."""
    of = suite(seeds=SEEDS, encodings=["nope", "rope", "alibi"])
    more = suite(seeds=[5, 6, 7, 8, 9], encodings=of.encodings)
    runs = runs_of(of, {"nope": (0.9, 0.8), "rope": (0.88, 0.78), "alibi": (0.7, 0.2)})
    runs += [
        r.model_copy(update={"fingerprint": of.fingerprint}) for r in runs_of(more, {"nope": (0.9, 0.8), "rope": (0.88, 0.78)})
    ]
    rows = summary.summarise(only_grid(of, runs))["standard"]
    assert [(row.name, row.tier, columns.SEEDS.text(row)) for row in rows] == [
        ("nope", 1, "10"),
        ("rope", 2, "10"),
        ("alibi", 3, "5"),
    ]
    table = cells(whole_board([only_grid(of, runs)]), "## Overall")
    assert [row["seeds"] for row in table] == ["10", "10", "5"]


def test_another_entry_changes_only_tier_and_p_of_a_row():
    levels = {"a": (0.9, 0.8), "b": (0.8, 0.6)}
    small, large = (grid_of(found) for found in (levels, levels | {"c": (0.85, 0.7)}))
    before, after = (rows_by_name(grid) for grid in (small, large))
    for name in levels:
        for number in ("iqm", "iqm_interval", "score", "interval"):
            assert getattr(before[name], number) == getattr(after[name], number)


def test_incomplete_rows_are_not_compared():
    of = suite()
    runs = full(of, {"nope": CURVE}) + [result(of, "sorting", "rope", seed) for seed in of.seeds]
    nope, rope = summary.summarise(only_grid(of, runs))["standard"]
    assert (nope.name, nope.tier, nope.below, nope.against) == ("nope", None, None, None)
    assert (rope.tier, rope.score, rope.reach, rope.places) == (None, None, None, None)
    assert columns.SCORE.text(rope) == "incomplete"


def test_a_row_has_the_statistics_of_its_runs():
    rows = rows_of(suite(seeds=SEEDS), runs_of(suite(seeds=SEEDS), {"nope": (0.9, 0.4)}))
    scores = [2 * (0.9 + np.array(JITTER)) - 1, 0.4 + np.array(JITTER)]
    row = rows["nope"]
    assert [s.tolist() for s in row.scores] == [pytest.approx(s, abs=1e-3) for s in scores]  # sorting's chance is nearly 0
    assert row.iqm == st.iqm(row.scores) and row.iqm_interval == bootstrap.iqm_interval(row.scores)
    assert row.interval == bootstrap.mean_score_interval(row.scores)
