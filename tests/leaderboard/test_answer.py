"""What the board says first: the answer in words, and how much the measurement resolves."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from board_helpers import cells, whole_board
from synthetic_results import full, only_grid, record, result, suite

from leaderboard.data.grid import RelativeCost, build_grids
from leaderboard.render.answer import answer, seeds_text
from leaderboard.render.front_page import not_run
from leaderboard.stats import resolution
from leaderboard.stats.summary import summarise

JITTER = (-0.02, 0, 0.02)


def runs_of(of, curves):
    return [
        result(of, task.task, name, seed, (1, 1, *(x + jitter for x in past)))
        for name, past in curves.items()
        for task in of.tasks
        for seed, jitter in zip(of.seeds, JITTER, strict=False)
    ]


def said(of, runs):
    grid = only_grid(of, runs)
    return answer(grid, summarise(grid))


def test_leaders_their_cost_and_those_clearly_below_are_named():
    of = suite(encodings=["a", "b", "c"])
    runs = runs_of(of, {"a": (0.95, 0.6), "b": (0.95, 0.59), "c": (0.55, 0.2)})
    dear = {"model": 9, "encoding": 40}
    runs = [
        r.model_copy(update={"parameters": r.parameters.model_validate(dear)}) if r.encoding.name == "a" else r for r in runs
    ]
    costs = {"a": RelativeCost(1.5, 1, 1, False), "b": RelativeCost(0.97, 1, 1, False), "c": RelativeCost(1, 1, 1, False)}
    past = dict.fromkeys("ab", "the last row | repeats") | {"c": "unchanged"}
    grid = replace(only_grid(of, runs), costs=costs, past=past)
    text = answer(grid, summarise(grid))
    assert "- **By design past L**: a and b: “the last row &#124; repeats”. Formulas and their symbols are on the pages" in text
    both = "a (.707 [.667, .747]) and b (.701 [.661, .741])"
    assert text.startswith(f"- **Use one of 2**: {both}. The test separates no two of them: tier 1.")
    assert (
        "Over 3 seeds it separates 2 of the 3 pairs tested in this table; the risk that even one of these" in text
        and "**Clearly below**: c.\n" in text
    )
    tasks = "parity a and b (up to .609); sorting a and b (up to .805). Without any one task a is first."
    assert f"- **By task**: the highest scores, and others within .020: {tasks} No task is tested by itself.\n" in text
    free = "no measurably longer steps with b; no parameters. Relative to nope, at L → at 4 L: a "
    assert f"{free}1.50 → 1 times the step time, 1 times the memory there, 40 parameters.\n" in text
    alone = answer(replace(grid, costs={}), summarise(replace(grid, costs={})))
    assert "**Clearly below**" in alone and "**Cost**" not in alone, "without nope there is no relative time"
    # Sorting ends at 2 L at .6, a success; parity is then .2 with guessing taken out.
    assert "with 2 on sorting (all to the end of the test, 2 L) and none on parity (furthest: a, 1.7" in text
    grid = replace(grid, costs=costs | {"b": RelativeCost(0.97, 2.75, 1.5, False)})
    classes = summarise(grid)
    first, second, *others = classes["standard"]
    other = answer(
        grid, {"standard": [first, replace(second, ps=second.ps | {"c": 0.5}), *others]}
    )  # as if its seeds differed more
    assert (
        "b 0.97 → 2.75 times the step time, 1.5 times the memory there, 0 parameters." in other and "no measurably" not in other
    )
    some = "no encoding is below all of these 2. Below at least one of these 2, but not all: c.\n"
    assert f"**Clearly below**: {some}" in other
    assert text.endswith(
        "2 layers, width 64, synthetic tasks, trained at lengths up to L: 4 (parity), 6 (sorting).\n"
        "- **Elsewhere**: the order may differ."
    )


def test_leaders_that_are_second_hand_are_marked():
    of = suite(encodings=["a", "b", "c"])
    runs = runs_of(of, {"a": (0.95, 0.6), "b": (0.95, 0.59), "c": (0.55, 0.2)})
    of_b = {"encoding": record("b", source="second-hand")}
    text = said(of, [run.model_copy(update=of_b) if run.encoding.name == "b" else run for run in runs])
    assert " and b ≈ (.701 [.661, .741]). ≈: written from what others say of it, so it may" in text


def test_leaders_with_fewer_seeds_than_others_are_marked():
    of = suite(encodings=["a", "b"])
    runs = runs_of(of, {"a": (0.95, 0.6), "b": (0.95, 0.59)})
    assert "seeds)" not in said(of, runs)
    text = said(of, [run for run in runs if (run.encoding.name, run.seed) != ("b", 2)])
    assert ", 2 seeds). The test separates no two" in text


def test_built_in_encodings_that_have_not_run_are_listed():
    of = suite(encodings=["a", "b"])
    past = {"c|": "falls", "b": "same", "a": "rises", "d": "same", "e": "same"}
    grid = replace(only_grid(of, runs_of(of, dict.fromkeys("bde", (0.9, 0.6)))), past=past)
    text = "**Not run yet**: 2 of the 5 encodings known here, so a better one may be among them: a, c&#124;."
    assert not_run(grid) == text
    assert not_run(replace(grid, past={"b": "same"})) == ""
    few = not_run(replace(grid, past=past | dict.fromkeys(["f", "g", "h"], "same")))
    assert few == "**Not run yet**: 5 of the 8 encodings known here, so a better one may be among them.", "most are not named"


def test_seeds_are_counted_before_every_task_has_run():
    of, counted = suite(), []
    runs = full(of, {"nope": (1, 1, 0.5, 0.5)})  # three seeds of parity, then three of sorting
    for count in (0, 1, 3, 4, 6):
        counted.append(seeds_text(only_grid(of, runs[:count])))
    assert counted == ["3 seeds", "0 to 1 of 3 seeds so far", "0 to 3 of 3 seeds so far", "1 to 3 of 3 seeds so far", "3 seeds"]


def test_statistics_are_computed_once_per_grid():
    of = suite()
    grid = only_grid(of, full(of, {"nope": (1, 1, 0.5, 0.5)}))
    assert summarise(grid) is summarise(grid) and summarise(replace(grid)) is not summarise(grid)


def test_encodings_with_too_few_seeds_for_a_test_are_not_recommended():
    of = suite(encodings=["a", "b", "c"])
    runs = runs_of(of, {"a": (0.95, 0.6), "b": (0.55, 0.2), "c": (0.95, 0.7)})
    text = said(of, [r for r in runs if r.encoding.name != "c" or r.seed == 0])
    assert text.startswith("- **So far, use a**: the test separates its score, .") and "**Clearly below**: b." in text
    assert ", from those of all others tested. Over 3 seeds" in text
    assert (
        "Over 3 seeds it separates 1 of the 1 pair tested in this table;" in text and "Too few seeds for the test: c (." in text
    )
    grid = only_grid(of, [r for r in runs if r.encoding.name != "c" or r.seed == 0])
    assert [(row.name, row.tier, row.places) for row in summarise(grid)["standard"]] == [
        ("c", None, None),
        ("a", 1, (1, 1)),
        ("b", 2, (2, 2)),
    ]


def test_an_encoding_is_recommended_if_separated_from_all_others():
    of = suite(encodings=["a", "b", "c", "d"])
    runs = runs_of(of, {"a": (0.95, 0.9), "b": (0.75, 0.6), "c": (0.65, 0.5), "d": (0.55, 0.1)})
    grid = only_grid(of, [run for run in runs if run.encoding.name != "d" or run.seed == 0])
    classes = summarise(grid)
    first, *others = classes["standard"]
    text = answer(grid, {"standard": [replace(first, ps=first.ps | {"c": 0.1}), *others]})  # as if its seeds differed more
    assert text.startswith("- **Highest of those tested**: a, .8")
    assert "The test separates it from all others but c. Over" in text
    assert " of the 3 pairs tested in this table;" in text and "**Clearly below**: b." in text
    assert "Too few seeds for the test: d (." in text


def test_tests_that_end_before_2_l_say_nothing_of_2_l():
    of = suite(encodings=["a", "b"], test_at=[0.5, 1, 1.25, 1.5])
    assert "**At 2 L**" not in said(of, runs_of(of, {"a": (0.95, 0.9), "b": (0.55, 0.1)}))


@pytest.mark.parametrize(
    ("changes", "curves", "words"),
    [
        ({}, {"a": (0.95, 0.9), "b": (0.55, 0.1)}, "**Use a**: the test separates its score"),
        ({}, {"a": (0.95, 0.9)}, "**One encoding**: a alone has run on every task"),
        ({"seeds": [0]}, {"a": (0.95, 0.9), "b": (0.55, 0.1)}, "**Highest so far**: a has the highest score"),
    ],
)
def test_one_leader_one_row_and_single_seeds(changes, curves, words):
    of = suite(encodings=sorted(curves), **changes)
    text = said(of, runs_of(of, curves))
    assert words in text and "**Elsewhere**: the order may differ" in text
    assert ("pair tested" in text) == (len(curves) > 1 and not changes)


def test_without_a_complete_row_or_any_run_nothing_is_said():
    of = suite()
    assert said(of, [result(of, "sorting", "nope")]) == ""
    (empty,) = build_grids(of, [], {})
    assert answer(empty, summarise(empty)) == "" and resolution.resolution(summarise(empty)) is None
    assert "No run of this version yet." in whole_board([empty])
    language = {"task": "language", "variant": "topics", "train_length": 8}
    of = suite(tasks=[suite().tasks[0].model_dump(), language])
    assert "| nope" in whole_board([only_grid(of, [result(of, "language", "nope")])]), "boards do not rank its one run"


def test_floor_ceiling_pairs_and_ranks_are_counted():
    of = suite(encodings=["a", "b", "c"])
    runs = full(of, {"a": (0, 0, 1, 0.99), "b": (0, 0, 1, 0.99), "c": (1, 1, 0.7, 0.01)})
    runs += [result(of, t.task, record("z", ranking="task-aware"), s, (1, 1, 0.5, 0.5)) for t in of.tasks for s in of.seeds]
    runs += [run.model_copy(update={"seed": run.seed + 9}) for run in runs if run.encoding.name == "c"]
    classes = summarise(only_grid(of, runs))
    found = resolution.resolution(classes)
    # Of eight cells past L on each task: .99 is .98 on parity, not over it; z is guessing there, and c under it.
    # One encoding with more seeds counts no more than the others.
    assert found.extremes == {"parity": (3 / 8, 2 / 8), "sorting": (1 / 8, 4 / 8)}
    assert (found.pairs, found.separated["the score"], found.first, found.ranked) == (6, 5, 2, 3)
    assert "the likelihood of a token" not in found.separated, "not recorded"


def test_split_half_agreement():
    rng = np.random.default_rng(0)
    sure = [[np.full(4, level) + rng.normal(0, 1e-6, 4)] * 2 for level in (0.1, 0.5, 0.9)]
    assert resolution.split_half(sure) == 1
    assert resolution.split_half(sure[:1]) is resolution.split_half([]) is None
    # Two runs can be split in one way up to order, so each encoding has its better run in either half.
    pairs = [rng.random(2) for _ in range(4)]
    halves = [[pair[i] for pair, i in zip(pairs, picks, strict=True)] for picks in np.ndindex(2, 2, 2, 2)]
    taus = [scipy.stats.kendalltau(half, [p.sum() - x for p, x in zip(pairs, half, strict=True)]).statistic for half in halves]
    assert resolution.split_half([[pair] for pair in pairs], splits=2000) == pytest.approx(np.mean(taus), abs=0.05)


def test_recorded_token_guessing_and_likelihood_enter_the_score_and_the_graded_table():
    of = suite(encodings=["a", "b"], tasks=[{"task": "sorting", "variant": "unique", "train_length": 6}])

    def graded(run, token, nll):
        scores = [s.model_copy(update={"token": token, "token_chance": 0.5, "nll": nll}) for s in run.scores]
        return run.model_copy(update={"scores": scores})

    runs = full(of, {"a": (1, 1, 0.6, 0.6)})
    runs = [graded(run, 0.9, 0.25) for run in runs] + [graded(run, 0.7, 0.75) for run in full(of, {"b": (1, 1, 0.4, 0.4)})]
    grid = only_grid(of, runs)
    classes = summarise(grid)
    a, b = classes["standard"]
    # Token accuracy without guessing: (.9 − .5)/.5 = .8 and .4; the score is its mean with exact match.
    assert (a.score, b.score) == (pytest.approx(0.7, abs=1e-3), pytest.approx(0.4, abs=1e-3))
    assert a.reach.mark == "≥" and b.reach.at == pytest.approx(1.5 ** (0.5 / 0.6), abs=1e-3)
    found = resolution.resolution(classes).separated
    assert found == dict.fromkeys(resolution.MEASURES, 1)
    row = cells(whole_board([grid]), "## Graded scores")[0]
    assert row == {"encoding": "a", "sorting, tokens": ".800", "sorting, nats": "0.25"}
    lost = [s.model_copy(update={"nll": None}) for s in runs[0].scores]
    runs[0] = runs[0].model_copy(update={"status": "diverged", "scores": lost})
    assert "the likelihood of a token" in resolution.resolution(summarise(only_grid(of, runs))).separated, "0 where it diverged"
