"""What the board says and shows of conditions and other suites, and where conditions are published."""

import re

import numpy as np
import pytest
import scipy.stats
import yaml
from board_helpers import cells, table_below
from figure_helpers import figure_of, overlaps, texts
from synthetic_results import only_grid, result, store, suite
from varied_suite import BASE, HALF, NAMES, OF, SWAPPED, TWICE, board_of, runs_of, varied, words_of

from leaderboard.data.conditions import attach_others
from leaderboard.data.store import publish_runs, published_grids
from leaderboard.figures.robustness import draw_robustness
from leaderboard.render.publish import read_published_board
from leaderboard.stats import robustness as rb


def test_the_board_says_where_the_order_holds():
    board = board_of(varied(**{TWICE: BASE, "width-128": SWAPPED}))
    (short,) = (line for line in board.split("## Overall")[0].splitlines() if "**Elsewhere**" in line)
    for fact in (
        "the order holds with learning rate × 2 (",
        "4 encodings ran again with one thing changed at a time: ",
        "1 other condition is undecided. The highest score is nope's with learning rate × 2; alibi's with width 128.",
    ):
        assert fact in short
    reversals = r"rope above nope, p [=<] \.\d{3}, t5 above nope, p [=<] \.\d{3} and 3 more pairs"
    assert re.search(rf"it does not hold with width 128 \(now {reversals}\); 1", short)
    words = board.split("## Does the order hold?\n\n")[1].split("\n")[0]
    assert "4 encodings ran again on all tasks with one thing changed at a time (so far under 2 of 3 conditions)." in words
    assert "**holds** with learning rate × 2: of the pairs separated in the suite (seeds 0, 1, 2) the test" in words
    assert re.search(rf"It \*\*does not hold\*\* with width 128 \(now {reversals}\)\.", words)
    assert "τ to the suite is −.667 to 1.000; differences between conditions are not tested." in words
    assert "Not complete: learning rate × 0.5 (0 of 16 runs, 0 whole seeds)." in words
    rows = {row["condition"]: row for row in cells(board, "## Does the order hold?")}
    assert rows["learning rate × 2"]["τ to the suite"] == "1.000 [1.000, 1.000]"
    assert rows["width 128"]["the other way round"] == "5"
    assert "nope 1 → 4 (−" in rows["width 128"]["largest moves: place in the suite → here (change of score)"]
    header, *lines = table_below(board, "<details><summary>Scores by task under each condition</summary>")
    assert header == ["condition", "encoding", "score", "parity", "sorting"]
    assert [line[:2] for line in lines[:4]] == [["the suite", name] for name in NAMES]
    assert [line[1] for line in lines[4:]] == [*NAMES, "alibi", *sorted(NAMES[1:3]), "nope"]
    for line in lines:
        assert float(line[2]) == pytest.approx(np.mean([float(score) for score in line[3:]]), abs=0.001)
    assert "Does the order hold?" not in board_of(varied()), "no section before any result"
    board = board_of(varied(**{TWICE: BASE | {"rope": 0.9}, "width-128": SWAPPED}))
    assert "The highest score is nope's and rope's with learning rate × 2; alibi's with width" in board
    board = board_of(varied(BASE | {"fire": 0.95}, **{TWICE: BASE}))
    assert " fire has not run under every condition." in board


def test_encodings_that_have_not_learned_every_task_under_a_condition_are_marked():
    runs = runs_of(OF.conditions[TWICE], {name: BASE[name] for name in NAMES[:3]})
    runs += [result(OF.conditions[TWICE], t.task, "alibi", seed, (1, 0.89, 0.3, 0.3)) for t in OF.tasks for seed in (0, 1)]
    grid = varied(BASE, **{TWICE: runs, "width-128": BASE})
    twice, width = rb.robustness(grid).comparisons
    assert (twice.flagged, twice.base_flagged, width.flagged) == (["alibi"], [], [])
    board = board_of(grid)
    said = "not learned every task at l ≤ L, so their scores there say little about longer lengths: 1 of 4 with learning"
    assert board.count(said) == 2, "in the answer and in the section"
    rows = {row["condition"]: row["encodings with ⚑"] for row in cells(board, "## Does the order hold?")}
    assert rows == {"learning rate × 2": "1 of 4", "width 128": "0 of 4"}
    lines = table_below(board, "<details><summary>Scores by task under each condition</summary>")[1:]
    assert [line[:2] for line in lines if "⚑" in " ".join(line)] == [["learning rate × 2", "alibi"]]
    assert "have not learned" not in board_of(varied(BASE, **{TWICE: BASE}))


def test_leaders_are_compared_with_each_other_and_with_the_rest():
    """Three in tier 1 change places among themselves under the condition; alibi stays below them, and t5 not."""
    base = {"nope": 0.9, "rope": 0.89, "t5": 0.88, "alibi": 0.2}
    one = rb.robustness(varied(base, **{"width-128": base | {"nope": 0.88, "t5": 0.9}})).comparisons[0]
    assert one.tau_among(["nope", "rope", "t5"]) == pytest.approx(-1)
    board = board_of(varied(base, **{"width-128": base | {"nope": 0.88, "t5": 0.9}}))
    assert "Among the 3 of tier 1, τ to the suite is −1.000 to −1.000. Below all of them under every condition: alibi." in board
    assert one.separated_below("t5") == ["alibi"] and one.separated_below("alibi") == []


def test_further_encodings_are_compared_where_they_have_all_seeds():
    base, late = BASE | {"fire": 0.95, "t5_scaled": 0.1}, BASE | {"fire": 0.2, "t5_scaled": 0.1}
    runs = {c: runs_of(OF.conditions[c], late if c in (HALF, TWICE) else BASE) for c in OF.conditions}
    runs[TWICE] = [r for r in runs[TWICE] if (r.encoding.name, r.seed) != ("t5_scaled", 1)]  # one seed is missing
    grid = varied(base, **runs)
    found = rb.robustness(grid)
    assert found.by_conditions == {(HALF, TWICE, "width-128"): NAMES, (HALF, TWICE): ["fire"], (HALF,): ["t5_scaled"]}
    assert {one.condition: one.encodings for one in found.comparisons} == {
        HALF: (*NAMES, "fire", "t5_scaled"),
        TWICE: (*NAMES, "fire"),
        "width-128": tuple(NAMES),
    }
    assert set(found.tuned.rates) == {*NAMES, "fire"} and found.finished["width-128"] == (16, 2)
    one = next(one for one in found.comparisons if one.condition == TWICE)
    assert {pair[:2] for pair in one.pairs.reversed} == {("fire", name) for name in NAMES}
    board = board_of(grid)
    rates = "learning rate × 0.5 and × 2"
    assert f"at a time; fire with {rates} alone; t5_scaled with learning rate × 0.5 alone." in board
    assert "fire above alibi (" not in board, "reversed, not open"
    found = rb.robustness(varied(base, **{condition: runs_of(suite, late) for condition, suite in OF.conditions.items()}))
    assert found.by_conditions == {tuple(OF.conditions): [*NAMES, "fire", "t5_scaled"]}
    assert "6 encodings ran again on all tasks with one thing changed at a time." in words_of(found)
    lines = figure_of(draw_robustness, rb.robustness(grid)).axes[0].get_lines()
    (line,) = (line for line in lines if line.get_label() == "t5_scaled")
    assert np.isfinite(line.get_ydata()).tolist() == [True, True, False, False]


def test_published_conditions_appear_only_in_the_section(tmp_path, monkeypatch):
    yaml_file = tmp_path / "tiny.yaml"
    yaml_file.write_text(yaml.safe_dump(OF.model_dump()))
    monkeypatch.setattr("bench.suites.suite.shipped", lambda: {"tiny": yaml_file})
    out, board = tmp_path / "runs", tmp_path / "board"
    for of, scores in (OF, BASE), (OF.conditions["width-128"], SWAPPED):
        store(out, runs_of(of, scores))
        publish_runs(of.name, out, board)
    published = read_published_board(board)
    pages = {path: data.decode() for path, data in published.text_files().items()}
    assert re.findall("^## Suite .*", pages["README.md"], re.MULTILINE) == ["## Suite tiny"]
    assert [path for path, text in pages.items() if "\n## Does the order hold?" in text] == ["suites/tiny/README.md"]
    assert list(published.suites) == ["tiny"]
    assert sorted(published_grids(board)) == ["tiny", "tiny-width-128"], "for lprime export"


def test_the_figure_shows_every_encoding_and_tau():
    found = rb.robustness(varied(**{HALF: BASE, TWICE: BASE, "width-128": SWAPPED}))
    figure = figure_of(draw_robustness, found)
    shown = texts(figure)
    assert {*NAMES, "τ 1.000", "τ −.667"} <= set(shown)
    assert overlaps(figure) == []
    line = next(line for line in figure.axes[0].get_lines() if line.get_label() == "alibi")
    width = next(one for one in found.comparisons if one.condition == "width-128")
    assert line.get_ydata()[3] == pytest.approx(width.scores[width.encodings.index("alibi")])


def test_the_order_is_compared_with_other_suites():
    """Encodings of both, by seeds that all of them have; NoPE has run on one task only in the larger suite."""
    there = {"rope": 0.2, "t5": 0.9, "alibi": 0.5, "nope": 0.7, "fire": 0.4}
    large = suite(name="large", encodings=list(there), seeds=[0, 1])
    runs = [r for r in runs_of(large, there) if r.encoding.name != "nope" or r.task == large.tasks[0].task]
    small = only_grid(OF, runs_of(OF, BASE | {"fire": 0.3}))
    boards = attach_others({"small": [small], "large": [only_grid(large, runs)]})
    (found,) = rb.order_elsewhere(boards["small"][0])
    assert found.condition == "large" and sorted(found.encodings) == ["alibi", "fire", "rope", "t5"]
    expected = scipy.stats.kendalltau([0.8, 0.7, 0.6, 0.3], [0.2, 0.9, 0.5, 0.4]).statistic
    assert found.tau == pytest.approx(expected) and found.pairs.total == 6 and len(found.pairs.reversed) == 3
    shown = board_of(boards["small"][0])
    rows = cells(shown, "## Is the order the same in other suites?")
    assert [row["encoding"] for row in rows] == ["rope", "t5", "alibi", "fire"]
    assert "Of the 6 pairs separated here, the test separates 3 there in the same direction and 3 pairs the other way" in shown
    (short,) = (line for line in shown.split("## Overall")[0].splitlines() if "**Elsewhere**" in line)
    assert "in suite large the same 4 encodings are in an order with τ = " in short and "3 pairs the other way round" in short
    (back,) = rb.order_elsewhere(boards["large"][0])
    assert back.tau == found.tau and back.condition == "small"
    one_seed = attach_others({"small": [small], "large": [only_grid(large, [r for r in runs if r.seed == 0])]})
    assert "too few seeds for a test" in board_of(one_seed["small"][0])
    few = attach_others({"small": [only_grid(OF, runs_of(OF, {"rope": 0.8, "t5": 0.7}))], "large": [only_grid(large, runs)]})
    assert not rb.order_elsewhere(few["small"][0]) and not rb.order_elsewhere(small)
