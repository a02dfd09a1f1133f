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
    assert ours.out_of_distribution(LENGTHS, exact, L) == pytest.approx([0.3, 0])


@given(curves, st.lists(st.floats(0, 0.9), min_size=5, max_size=5))
def test_score_is_the_floored_mean_of_corrected_accuracies(exact, chance):
    expected = [max(0, sum((run[i] - chance[i]) / (1 - chance[i]) for i in (2, 3, 4)) / 3) for run in exact.tolist()]
    assert ours.run_scores(LENGTHS, exact, np.array(chance), L) == pytest.approx(expected)


def test_score_is_floored_once_after_the_mean_over_lengths():
    chance = np.full(5, 0.5)
    # One lucky length and two unlucky ones: guessing earns nothing, though a floor at each length would give 1/3.
    guessing = np.array([[1, 1, 1, 0, 0.25]])
    below = np.array([[1, 1, 0, 0, 0]])
    perfect = np.ones((1, 5))
    scores = [ours.run_scores(LENGTHS, exact, chance, L)[0] for exact in (guessing, below, perfect)]
    assert scores == [0, 0, 1]


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


@given(matrices, st.sampled_from([1.0, 0.5]))
def test_aggregates_are_those_of_rliable(rliable, scores, target):
    tasks = list(scores.T)
    assert ours.iqm(tasks) == pytest.approx(rliable.aggregate_iqm(scores), abs=1e-12)
    assert ours.mean_score(tasks) == pytest.approx(rliable.aggregate_mean(scores), abs=1e-12)
    assert ours.optimality_gap(tasks, target) == pytest.approx(rliable.aggregate_optimality_gap(scores, target), abs=1e-12)


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
    assert ours.optimality_gap(scores) == pytest.approx(1 - (0.3 + 1) / 2)
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


@pytest.mark.parametrize(
    ("curve", "longest"),
    [
        ([1, 1, 1, 1, 1], 50),
        ([1, 1, 0.95, 0.2, 0], 15),
        ([1, 0.9, 0.9, 0.9, 0.899], 20),  # 0.9 itself is enough
        ([1, 0.5, 1, 1, 1], 5),  # a length passed after a failed one does not count
        ([0.89, 1, 1, 1, 1], 0),
    ],
)
def test_reach(curve, longest):
    assert ours.reach(LENGTHS, np.array([curve])) == longest


def test_reach_uses_the_mean_over_seeds():
    # Means .9, .9 (a little under it in floating point) and .85.
    exact = np.array([[0.8, 0.82, 0.75, 0, 0], [0.9, 0.94, 0.9, 0, 0], [1, 0.94, 0.9, 0, 0]])
    assert exact.mean(0)[1] < 0.9
    assert ours.reach(LENGTHS, exact) == 10


@pytest.mark.parametrize(("accuracy", "passes"), [(1, True), (0.95, True), (0.95 - 1e-16, True), (0.9499, False), (0, False)])
def test_gate(accuracy, passes):
    assert ours.passes_gate(accuracy) is passes


@given(st.lists(st.sampled_from([0.0, 0.5, 0.5001, 0.5004, 0.5006, 0.7, 1.0]), max_size=8))
def test_ranks_are_competition_ranks_of_printed_scores(scores):
    printed = [float(f"{s:.3f}") for s in scores]
    assert ours.competition_ranks(scores) == scipy.stats.rankdata([-p for p in printed], method="min").astype(int).tolist()


def test_ties_are_broken_by_the_next_printed_score():
    assert ours.competition_ranks([0.5004, 0.5001, 0.5, 0.6], [0.3, 0.4, 0.4001, 0.1]) == [4, 2, 2, 1]


def test_relative_time_is_a_geometric_mean_of_ratios_of_medians():
    own = [[20.0, 21.0, 900.0], [5.0]]
    base = [[10.5], [20.0, 20.0]]
    assert ours.relative_time(own, base) == pytest.approx(math.sqrt(2 * 0.25))
    assert ours.relative_time(base, own) == pytest.approx(1 / math.sqrt(2 * 0.25))
    assert ours.relative_time(base, base) == pytest.approx(1)


def test_relative_time_needs_both_sides_on_every_task():
    assert ours.relative_time([[20.0], []], [[10.0], [10.0]]) is None
    assert ours.relative_time([[20.0], [20.0]], [[10.0], []]) is None
    assert ours.relative_time([[0.0], [20.0]], [[10.0], [10.0]]) is None
    assert ours.relative_time([[0.0, 20.0], [20.0]], [[10.0], [10.0]]) == pytest.approx(2)
