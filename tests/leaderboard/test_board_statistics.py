"""The statistics of the board against rliable, scipy and closed forms."""

import importlib
import math
import statistics as python_statistics

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leaderboard.stats import scores as ours

LENGTHS = np.array([5, 10, 15, 20, 50])
L = 10
shares = st.floats(0, 1)
scores = st.one_of(shares, st.sampled_from([0.0, 0.25, 0.5, 1.0]))  # ties are as likely as not


def matrices_of(tasks):
    """Runs × tasks, as rliable takes them."""
    return st.integers(1, 7).flatmap(lambda runs: arrays(float, (runs, tasks), elements=scores))


matrices = st.integers(1, 5).flatmap(matrices_of)
curves = st.lists(st.lists(shares, min_size=5, max_size=5), min_size=1, max_size=6).map(np.array)


def test_l_itself_is_in_distribution():
    exact = np.array([[1, 0.8, 0.6, 0.3, 0], [1, 1, 0, 0, 0]])
    assert ours.in_distribution(LENGTHS, exact, L) == pytest.approx([0.9, 1])


@given(curves, st.lists(st.floats(0, 0.9), min_size=5, max_size=5))
def test_every_octave_past_l_has_the_same_weight(exact, chance):
    """The score is the mean of a staircase over log l: from one test length to the next, the cell of the longer one."""
    cells = ours.without_guessing(exact, np.array(chance))
    at = np.exp(np.linspace(np.log(10), np.log(50), 20_001)[1:])
    stairs = cells[:, np.searchsorted(LENGTHS, np.round(at, 9))]
    assert ours.run_scores(LENGTHS, cells, L) == pytest.approx(np.maximum(stairs.mean(1), 0), abs=1e-3)


def test_score_is_floored_once_after_the_mean_over_lengths():
    chance = np.full(5, 0.5)
    # One lucky length and two unlucky ones: guessing earns nothing, though a floor at each length would give a quarter.
    guessing = np.array([[1, 1, 1, 0, 0.25]])
    below = np.array([[1, 1, 0, 0, 0]])
    perfect = np.ones((1, 5))
    cells = [ours.without_guessing(exact, chance) for exact in (guessing, below, perfect)]
    assert [ours.run_scores(LENGTHS, found, L)[0] for found in cells] == pytest.approx([0, 0, 1])


def test_a_cell_scores_exact_match_and_token_accuracy_without_guessing():
    exact, token = np.array([[0.8, 0.6]]), np.array([[0.6, 0.9]])
    found = ours.cell_scores(exact, token, np.array([0.5, 0.5]), np.array([[0.2, np.nan]]))  # unknown: exact match alone
    assert found == pytest.approx(np.array([[(0.6 + 0.5) / 2, 0.2]]))


@given(st.lists(shares, min_size=2, max_size=10))
def test_mean_interval_is_that_of_student(values):
    mean, half = ours.mean_interval(np.array(values))
    spread = python_statistics.stdev(values) / math.sqrt(len(values))
    assert mean == pytest.approx(python_statistics.fmean(values))
    assert half == pytest.approx(scipy.stats.t.ppf(0.975, len(values) - 1) * spread, abs=1e-12)


def test_mean_interval_of_a_single_run():
    assert ours.mean_interval(np.array([0.4])) == (0.4, None)


def test_mean_score_gives_all_tasks_the_same_weight():
    assert ours.mean_score([np.array([1.0, 1, 1, 1]), np.array([0.0])]) == 0.5


@pytest.fixture(scope="module")
def rliable():
    return importlib.import_module("rliable.metrics")


@given(matrices)
def test_aggregates_are_those_of_rliable(rliable, scores):
    tasks = list(scores.T)
    assert ours.iqm(tasks) == pytest.approx(rliable.aggregate_iqm(scores), abs=1e-12)
    assert ours.mean_score(tasks) == pytest.approx(rliable.aggregate_mean(scores), abs=1e-12)
    assert 1 - ours.mean_score(tasks) == pytest.approx(rliable.aggregate_optimality_gap(scores), abs=1e-12)


@given(matrices)
def test_the_profile_is_that_of_rliable(scores):
    thresholds = np.array([0, 0.25, 0.3, 0.5, 0.999, 1])
    theirs = importlib.import_module("rliable.library").score_distributions(scores, thresholds)
    assert ours.performance_profile(list(scores.T), thresholds) == pytest.approx(theirs, abs=1e-12)


@given(st.integers(1, 4).flatmap(lambda tasks: st.tuples(*[matrices_of(tasks)] * 2)))
def test_the_probability_of_improvement_is_that_of_rliable(rliable, pair):
    x, y = pair
    assert ours.probability_of_improvement(list(x.T), list(y.T)) == pytest.approx(
        rliable.probability_of_improvement(x, y), abs=1e-12
    )


def test_aggregates_of_tasks_with_different_numbers_of_runs():
    scores = [np.array([0.0, 0.2, 0.4, 0.6]), np.array([1.0])]
    # A quarter of five, rounded down, is a fifth. Of the first task .125 each: the least and .075 of the next are cut; and of
    # the second, which is half of all, a fifth is.
    assert ours.iqm(scores) == pytest.approx((0.05 * 0.2 + 0.125 * 0.4 + 0.125 * 0.6 + 0.3 * 1) / 0.6)
    assert ours.mean_score(scores) == pytest.approx((0.3 + 1) / 2)
    assert ours.performance_profile(scores, np.array([0.2, 0.9])) == pytest.approx([(2 / 4 + 1) / 2, (0 + 1) / 2])
    # First task: 2 beat both and 1 ties with one of them and loses to the other, 1 loses to both. Second: a tie.
    assert ours.probability_of_improvement(scores, [np.array([0.2, 0.3]), np.array([1.0])]) == pytest.approx(
        ((2 + 2 + 0.5 + 0) / 8 + 0.5) / 2
    )


@given(matrices, st.integers(1, 4), st.data())
def test_a_task_with_more_runs_has_no_more_weight(scores, times, data):
    """All runs are repeated four times, so that quarters are whole; those of one task more often."""
    tasks = list(scores.T)
    again = data.draw(st.integers(0, len(tasks) - 1))
    repeated = [np.tile(runs, 4 * times if task == again else 4) for task, runs in enumerate(tasks)]
    assert ours.iqm(repeated) == pytest.approx(ours.iqm([np.tile(runs, 4) for runs in tasks]), abs=1e-12)


@given(matrices, matrices)
def test_improvement_and_its_reverse_add_up_to_one(x, y):
    both = min(x.shape[1], y.shape[1])
    x, y = list(x.T)[:both], list(y.T)[:both]
    assert ours.probability_of_improvement(x, y) + ours.probability_of_improvement(y, x) == pytest.approx(1)


@given(st.lists(st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=5, max_size=5), min_size=1, max_size=4))
def test_reach_is_the_first_crossing_of_the_interpolated_curve(runs):
    exact, chance = np.array(runs), np.array([0.25, 0.25, 0, 0, 0])
    curve = (exact.mean(0) - chance) / (1 - chance)
    at = np.linspace(np.log(5), np.log(50), 100_001)
    under = np.flatnonzero(np.interp(at, np.log(LENGTHS), curve) < 0.5 - 1e-9)
    found = ours.reach(LENGTHS, exact, chance, L)
    if not len(under):
        assert found == (5, "≥")
    elif under[0] == 0:
        assert found == (0.5, "<")
    else:
        assert found == (pytest.approx(np.exp(at[under[0]]) / L, rel=1e-4), "")


def test_reach_at_hand_computed_points():
    sure = np.zeros(5)
    # Three quarters at 15 and one quarter at 20: half way in log l.
    assert ours.reach(LENGTHS, np.array([[1, 1, 0.75, 0.25, 1]]), sure, L) == (pytest.approx((15 * 20) ** 0.5 / 10), "")
    assert ours.reach(LENGTHS, np.array([[1, 1, 1, 1, 0.5]]), sure, L) == (5, "≥")  # one half is not under it
    assert ours.reach(LENGTHS, np.array([[0.8, 0.2, 1, 1, 1]]), sure, L) == (pytest.approx(50**0.5 / 10), "")  # not learned
    # Guessing between two is .5: three quarters are one half with guessing taken out.
    assert ours.reach(LENGTHS, np.full((2, 5), 0.75), np.full(5, 0.5), L) == (5, "≥")


@pytest.mark.parametrize(("marks", "mark"), [(["", ""], ""), (["≥", ""], "≥"), (["<", ""], "<"), (["≥", "<"], "~")])
def test_the_mean_of_reaches_is_geometric_and_marked(marks, mark):
    assert ours.mean_reach([ours.Reach(4.0, marks[0]), ours.Reach(1.0, marks[1])]) == (pytest.approx(2), mark)


@pytest.mark.parametrize(("accuracy", "passes"), [(1, True), (0.95, True), (0.95 - 1e-16, True), (0.9499, False), (0, False)])
def test_gate(accuracy, passes):
    assert ours.passes_gate(accuracy) is passes


@given(st.lists(st.sampled_from([0.0, 0.5, 0.5001, 0.5004, 0.5006, 0.7, 1.0]), max_size=8))
def test_ranks_are_competition_ranks_of_printed_scores(scores):
    printed = [float(f"{s:.3f}") for s in scores]
    assert ours.competition_ranks(scores) == scipy.stats.rankdata([-p for p in printed], method="min").astype(int).tolist()


def test_relative_time_is_a_geometric_mean_of_ratios_of_medians():
    own = [[20.0, 21.0, 900.0], [5.0]]
    base = [[10.5], [20.0, 20.0]]
    assert ours.relative_time(own, base) == pytest.approx(math.sqrt(2 * 0.25))
    assert ours.relative_time(base, own) == pytest.approx(1 / math.sqrt(2 * 0.25))
    assert ours.relative_time(base, base) == pytest.approx(1)


def test_relative_time_needs_both_sides_on_every_task():
    assert ours.relative_time([[20.0], []], [[10.0], [10.0]]) is None
    assert ours.relative_time([[20.0], [20.0]], [[10.0], []]) is None
