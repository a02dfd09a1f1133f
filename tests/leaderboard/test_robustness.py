"""Does the order hold? Statistics against independent computations, the section's words, and where conditions are published."""

import itertools
import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import yaml
from board_helpers import cells, table_below, whole_board
from figure_helpers import figure_of, overlaps, texts
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays
from synthetic_results import only_grid, result, store, suite

from leaderboard.data.conditions import attach, attach_others
from leaderboard.data.store import publish_runs, published_grids
from leaderboard.figures.robustness import draw_robustness
from leaderboard.render.publish import read_published_board
from leaderboard.render.robustness_text import robustness_tables, robustness_words
from leaderboard.stats import orders
from leaderboard.stats import robustness as rb

HALF, TWICE = "learning_rate-x0.5", "learning_rate-x2"
NAMES = ["nope", "rope", "t5", "alibi"]
VARY = {"encodings": NAMES, "seeds": [0, 1], "conditions": {"learning_rate": ["x0.5", "x2"], "width": [128]}}
OF = suite(encodings=NAMES, seeds=[0, 1, 2], vary=VARY)


def words_of(found):
    return robustness_words(found).replace("\u00a0", " ")


def board_of(grid):
    return whole_board([grid]).replace("\u00a0", " ")


def runs_of(of, scores, spread=0.02):
    """Runs whose score past L is that of the encoding, a little more with each seed."""
    return [
        result(of, t.task, name, seed, (1, 1, *[score + spread * seed] * 2))
        for name, score in scores.items()
        for t in of.tasks
        for seed in of.seeds
    ]


BASE = {"nope": 0.9, "rope": 0.8, "t5": 0.7, "alibi": 0.6}
SWAPPED = BASE | {"nope": 0.6, "alibi": 0.9}


def varied(base=BASE, **conditions):
    """The grid of ``OF`` with conditions: scores of the encodings, or runs."""
    made = {}
    for condition, runs in conditions.items():
        of = OF.conditions[condition]
        made[of.name] = [only_grid(of, runs_of(of, runs) if isinstance(runs, dict) else runs)]
    return attach(only_grid(OF, runs_of(OF, base)), made)


@given(some.integers(2, 9).flatmap(lambda n: arrays(np.int64, (2, n), elements=some.integers(0, 4))))
def test_tau_is_kendalls_tau_b(both):
    expected = scipy.stats.kendalltau(*both).statistic
    assert orders.kendall_tau(*(both / 10)) == pytest.approx(expected, nan_ok=True)


def test_the_bootstrap_draws_all_resamples_with_their_probabilities():
    rng = np.random.default_rng(0)
    ours, theirs = (list(rng.random((3, 2, 2))) for _ in range(2))  # three encodings, two seeds, two tasks

    def resamples(runs):
        """All resamples of all encodings: overall scores, widened by √(S/(S − 1)) for S = 2."""
        for drawn in itertools.product(itertools.product(range(2), repeat=4), repeat=len(runs)):
            means = [np.mean([r[d[0], 0], r[d[1], 0], r[d[2], 1], r[d[3], 1]]) for r, d in zip(runs, drawn, strict=True)]
            centre = np.array([r.mean() for r in runs])
            yield centre + np.sqrt(2) * (np.array(means) - centre)

    def permutations(samples):
        return Counter(tuple(np.argsort(sample)) for sample in samples)

    first, second = permutations(resamples(ours)), permutations(resamples(theirs))
    total = first.total() * second.total()
    exact = Counter()
    for (a, m), (b, n) in itertools.product(first.items(), second.items()):
        exact[round(scipy.stats.kendalltau(np.argsort(a), np.argsort(b)).statistic, 6)] += m * n / total
    rng = np.random.default_rng(1)
    drawn = orders.kendall_tau(*(orders.resampled(runs, rng, replicates=20_000) for runs in (ours, theirs)))
    for tau, probability in exact.items():
        assert np.isclose(drawn, tau, atol=1e-5).mean() == pytest.approx(probability, abs=0.015)


def test_the_interaction_is_that_of_nested_least_squares():
    rng = np.random.default_rng(2)
    encodings, rates, seeds = shape = (4, 3, 5)
    scores = rng.normal(size=shape) * 0.1 + rng.normal(size=(4, 3, 1)) * 0.1 + rng.normal(size=(4, 1, 1))
    e, r = (np.eye(n)[i.ravel()] for n, i in zip(shape, np.indices(shape)[:2], strict=False))
    one = np.ones((scores.size, 1))
    cell = (e[:, :, None] * r[:, None, :]).reshape(scores.size, -1)

    def residual(*columns):
        design = np.hstack(columns)
        fit = design @ np.linalg.lstsq(design, scores.ravel(), rcond=None)[0]
        return ((scores.ravel() - fit) ** 2).sum()

    nothing, only_e, only_r, additive, whole = residual(one), residual(e), residual(r), residual(e, r), residual(cell)
    df, df_rest = (encodings - 1) * (rates - 1), encodings * rates * (seeds - 1)
    error = whole / df_rest
    f = (additive - whole) / df / error
    found = rb.interaction(scores)
    assert found.p == pytest.approx(scipy.stats.f.sf(f, df, df_rest))
    effects = (nothing - only_e, encodings - 1), (nothing - only_r, rates - 1), (additive - whole, df)
    omega = [max(0, (squares - k * error) / (nothing + error)) for squares, k in effects]
    assert found[:3] == pytest.approx(omega)


def test_each_encoding_takes_the_rate_with_its_lowest_loss():
    runs = {c: runs_of(OF.conditions[c], SWAPPED) for c in (HALF, TWICE)}
    best = {"nope": HALF, "rope": TWICE, "t5": rb.SUITE, "alibi": HALF}
    for condition, made in runs.items():
        runs[condition] = [
            r.model_copy(update={"loss": [(10, 0.0), (800, 0.01 if best[r.encoding.name] == condition else 0.2)]}) for r in made
        ]
    tuned = rb.robustness(varied(**runs)).tuned
    assert tuned.rates == best and not tuned.by_answers
    scores = dict(zip(tuned.comparison.encodings, tuned.comparison.scores, strict=True))
    assert scores["nope"] < scores["rope"] < scores["alibi"]
    short = board_of(varied(**runs)).split("## Overall")[0]
    assert "3 of 4 scores change, most that of alibi: .415 → .865. The highest is then .865 (seeds 0, 1): the test " in short
    diverged = [r.model_copy(update={"status": "diverged"}) for r in runs[TWICE]]
    assert rb.robustness(varied(**runs | {TWICE: diverged})).tuned.rates["rope"] != TWICE


def test_a_learning_rate_may_be_a_number():
    of = suite(encodings=NAMES, seeds=[0, 1], vary=VARY | {"conditions": {"learning_rate": [0.01]}})
    (condition,) = of.conditions.values()
    runs = [r.model_copy(update={"loss": [(800, 0.0)]}) for r in runs_of(condition, SWAPPED)]
    grid = attach(only_grid(of, runs_of(of, BASE)), {condition.name: [only_grid(condition, runs)]})
    words = words_of(rb.robustness(grid))
    assert "learning rate and 0.01, another than the suite's has the lowest loss for 4 of 4 encodings (for 4 the" in words


def test_learning_rates_are_compared_by_the_seeds_that_all_have():
    runs = {c: runs_of(OF.conditions[c], BASE) for c in (HALF, TWICE)}
    whole = rb.robustness(varied(**runs))
    assert whole.rates == {rb.SUITE: 0.002, HALF: 0.001, TWICE: 0.004}
    assert whole.interaction
    third = [r.model_copy(update={"seed": 2}) for r in runs[HALF] if r.seed == 0]
    assert rb.robustness(varied(**runs | {HALF: [*runs[HALF], *third]})).interaction == whole.interaction, "one rate is ahead"
    found = rb.robustness(varied(**runs | {TWICE: [r for r in runs[TWICE] if r.seed == 0]}))
    assert [one.condition for one in found.comparisons] == [HALF, TWICE]
    assert list(found.rates) == [rb.SUITE, HALF], "by one seed little is known"
    assert (set(found.tuned.rates), found.tuned.changed, found.tuned.seeds) == (set(NAMES), 0, (0, 1))
    words = words_of(found)
    assert "× 0.5, the suite's has the lowest loss for every encoding, by the training loss of seeds 0, 1." in words
    assert len(robustness_tables(found)) == 1, "no comparison of the suite with itself"


def test_runs_that_both_conditions_share_are_resampled_once():
    runs = [np.array([[0.2], [0.6]]), np.array([[0.3], [0.5]])]
    assert orders.tau_interval(runs, runs) == (1, 1)
    assert orders.tau_interval(runs, [one.copy() for one in runs]) == (-1, 1)


@pytest.mark.parametrize(
    ("t5_and_alibi", "holds"),
    [((0.7, 0.6), True), ((0.6, 0.7), False), ((0.65, 0.65), True)],
    ids=["the same", "reversed", "no longer separated"],
)
def test_the_order_holds_while_no_separated_pair_is_reversed(t5_and_alibi, holds):
    scores = BASE | dict(zip(("t5", "alibi"), t5_and_alibi, strict=True))
    (one,) = rb.robustness(varied(**{"width-128": scores})).comparisons
    turned, same = holds is False, t5_and_alibi[0] > t5_and_alibi[1]
    assert (one.pairs.same, one.pairs.open) == (5 + same, (("t5", "alibi"),) * (1 - same - turned))
    assert [(pair.before, pair.now, pair.p <= 0.05) for pair in one.pairs.reversed] == [("t5", "alibi", True)] * turned
    assert one.holds is holds


def test_nothing_is_said_of_an_order_that_is_no_longer_seen():
    found = rb.robustness(varied(**{"width-128": dict.fromkeys(NAMES, 0.5)}))
    (one,) = found.comparisons
    assert one.pairs == orders.Pairs(0, (), tuple(itertools.combinations(sorted(NAMES, key=BASE.get, reverse=True), 2)))
    assert one.holds is None
    words = words_of(found)
    assert "Pairs that the test does not separate again under most conditions: " in words and "t5 above alibi (1 of 1)" in words


def test_the_loss_is_that_of_answers_where_it_is_known():
    def loss(nlls, status="done"):
        return rb.losses(SimpleNamespace(status=status, loss=[(1, 3.0), (2, 0.5)], in_distribution=nlls))

    known, unknown = SimpleNamespace(nll=0.1), SimpleNamespace(nll=None)
    assert loss([known, SimpleNamespace(nll=0.3)]) == pytest.approx((0.2, 0.5))
    assert np.isnan(loss([known, unknown])[0])
    assert loss([unknown], "diverged") == (np.inf, np.inf)


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
    assert "Not under every condition ran fire." in board


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


def test_a_condition_counts_from_its_first_whole_seed_on():
    runs = runs_of(OF.conditions["width-128"], SWAPPED)
    early = [r for r in runs if r.seed == 0 and r.encoding.name != "nope"]
    assert rb.robustness(varied(**{"width-128": early})) is None
    later = [r for r in runs if r.seed == 0 or r.encoding.name != "nope"]
    found = rb.robustness(varied(**{"width-128": later}))
    (one,) = found.comparisons
    assert (one.encodings, one.interval, one.pairs, one.holds) == (tuple(NAMES), None, None, None), "one seed that all have"
    assert found.finished["width-128"] == (len(later), 1)
    words = words_of(found)
    assert "τ to the suite is −.667;" in words
    assert "With width 128, too few seeds or separated pairs leave open whether the order holds." in words
    assert f"width 128 ({len(later)} of 16 runs, 1 whole seed)" in words


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
    (back,) = rb.order_elsewhere(boards["large"][0])
    assert back.tau == found.tau and back.condition == "small"
    one_seed = attach_others({"small": [small], "large": [only_grid(large, [r for r in runs if r.seed == 0])]})
    assert "too few seeds for a test" in board_of(one_seed["small"][0])
    few = attach_others({"small": [only_grid(OF, runs_of(OF, {"rope": 0.8, "t5": 0.7}))], "large": [only_grid(large, runs)]})
    assert not rb.order_elsewhere(few["small"][0]) and not rb.order_elsewhere(small)
