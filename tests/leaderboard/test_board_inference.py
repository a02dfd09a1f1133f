"""Intervals of the board: the plain bootstrap against rliable, the corrected one by its coverage."""

import importlib
import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leaderboard.stats import bootstrap as ours
from leaderboard.stats import scores as st_scores

THRESHOLDS = np.linspace(0, 1, 21)
INTERVALS = [ours.mean_score_interval, ours.iqm_interval]
scores = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0]))
encodings = st.lists(st.integers(2, 6).flatmap(lambda runs: arrays(float, runs, elements=scores)), min_size=1, max_size=4)


@pytest.fixture
def rliable():
    """The library, with numpy's global generator seeded, because rliable's ``random_state`` has no effect."""
    library, state = importlib.import_module("rliable.library"), np.random.get_state()
    np.random.seed(0)
    yield library
    np.random.set_state(state)


def plain(interval, *made, replicates=ours.REPLICATES):
    """The interval without the correction for few runs, as in rliable."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ours, "expansion", lambda variances, counts: 1.0)
        return with_replicates(replicates, interval, *made)


def with_replicates(replicates, interval, *made):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ours, "REPLICATES", replicates)
        patch.setattr(ours, "CURVE_REPLICATES", replicates)
        return interval(*made)


# Both ends of an interval are quantiles of N replicates, in a tail of p = 0.025 and density f; their error is √(p(1 − p)/N)/f,
# which for a normal distribution is 0.034 spreads at 6,000.
def test_plain_intervals_agree_with_rliable(rliable):
    matrix = np.random.default_rng(3).beta(2, 2, size=(5, 4))  # runs × tasks
    for interval, statistic in ((ours.mean_score_interval, st_scores.mean_score), (ours.iqm_interval, st_scores.iqm)):
        _, theirs = rliable.get_interval_estimates({"x": matrix}, lambda s, f=statistic: np.array([f(list(s.T))]), reps=6_000)
        low, high = plain(interval, list(matrix.T))
        assert [low, high] == pytest.approx(theirs["x"].ravel(), abs=0.14 * (high - low) / 4)


def test_plain_improvement_interval_agrees_with_rliable(rliable):
    rng = np.random.default_rng(4)
    x, y = rng.beta(2, 2, size=(5, 3)), rng.beta(2, 3, size=(4, 3))
    _, theirs = rliable.get_interval_estimates(
        {"x,y": (x, y)}, lambda a, b: np.array([st_scores.probability_of_improvement(list(a.T), list(b.T))]), reps=6_000
    )
    low, high = plain(ours.improvement_interval, list(x.T), list(y.T))
    step = 1 / (3 * 5 * 4)  # it is a multiple of this, and so are its quantiles
    assert [low, high] == pytest.approx(theirs["x,y"].ravel(), abs=0.14 * (high - low) / 4 + step)


def test_plain_profile_band_agrees_with_rliable(rliable):
    matrix = np.random.default_rng(5).beta(2, 2, size=(5, 4))
    _, theirs = rliable.create_performance_profile({"x": matrix}, THRESHOLDS, reps=2_000)
    band = plain(ours.profile_band, list(matrix.T), THRESHOLDS, replicates=4_000)
    # Profiles are multiples of 1/20, and so are their quantiles: one step where a quantile falls on the edge between two.
    assert np.abs(band - theirs["x"]).max() <= 1 / 20 + 1e-9
    assert np.abs(band - theirs["x"]).mean() < 0.005


def test_plain_intervals_are_the_quantiles_of_the_exact_bootstrap_distribution():
    runs = [np.array([0.1, 0.37, 0.9]), np.array([0.2, 0.55, 0.61, 0.83])]
    for interval, statistic in ((ours.mean_score_interval, st_scores.mean_score), (ours.iqm_interval, st_scores.iqm)):
        draws = itertools.product(*(itertools.product(r, repeat=len(r)) for r in runs))
        exact = np.array([statistic([np.array(draw) for draw in pair]) for pair in draws])
        low, high = plain(interval, runs)
        assert (exact < low - 1e-9).mean() <= 0.025 + 0.003 and (exact <= low + 1e-9).mean() >= 0.025 - 0.003
        assert (exact > high + 1e-9).mean() <= 0.025 + 0.003 and (exact >= high - 1e-9).mean() >= 0.025 - 0.003


def test_the_corrected_interval_of_one_task_is_a_t_interval():
    runs = np.random.default_rng(7).normal(0.5, 0.05, 8)
    low, high = ours.mean_score_interval([runs])
    theirs = scipy.stats.t.interval(0.95, 7, runs.mean(), scipy.stats.sem(runs))
    assert [low, high] == pytest.approx(theirs, abs=0.1 * runs.std())  # the resampled mean is not quite normal


def test_expansion_uses_the_degrees_of_freedom_of_satterthwaite():
    # Two equal variances of five runs each: eight degrees of freedom. One variance alone: four.
    assert ours.expansion([2.0, 2.0], [5, 5]) == pytest.approx(math.sqrt(5 / 4) * scipy.stats.t.ppf(0.975, 8) / 1.959964)
    assert ours.expansion([2.0, 0.0], [5, 5]) == pytest.approx(math.sqrt(5 / 4) * scipy.stats.t.ppf(0.975, 4) / 1.959964)
    # Three runs and five: (3 + 1)²/(3²/2 + 1²/4) degrees of freedom; the bootstrap has 3·2/3 + 1·4/5 of a variance of 4.
    expected = math.sqrt(4 / 2.8) * scipy.stats.t.ppf(0.975, 16 / 4.75) / 1.959964
    assert ours.expansion([3.0, 1.0], [3, 5]) == pytest.approx(expected)
    assert ours.expansion([0.0, 0.0], [5, 5]) == 1


def test_the_iqm_interval_is_expanded_by_the_variance_of_the_middle_half():
    # The middle eight of sixteen are the second and third task, however much the other two scatter.
    middle = [np.array([0.3, 0.4, 0.5, 0.45]), np.array([0.51, 0.55, 0.56, 0.6])]
    made = [np.array([0.0, 0.2, 0.1, 0.05]), *middle, np.array([0.7, 1.0, 0.8, 0.9])]
    (low, high), (plain_low, plain_high) = ours.iqm_interval(made), plain(ours.iqm_interval, made)
    estimate, factor = st_scores.iqm(made), ours.expansion([runs.var(ddof=1) for runs in middle], [4, 4])
    assert [low - estimate, high - estimate] == pytest.approx([factor * (e - estimate) for e in (plain_low, plain_high)])
    assert factor != pytest.approx(ours.expansion([runs.var(ddof=1) for runs in made], [4] * 4), rel=0.05)


def test_the_iqm_of_zeros_and_ones_has_an_interval():
    made = [np.array([0.0, 0, 0, 0, 1])] * 5  # the middle half is zero, but a resample may hold ones enough
    uncorrected, factor = plain(ours.iqm_interval, made)[1], ours.expansion([1.0] * 5, [5] * 5)
    assert uncorrected > 0
    assert ours.iqm_interval(made) == pytest.approx((0, factor * uncorrected))


def test_the_improvement_interval_is_expanded_by_the_variance_of_placements():
    tie = [np.array([0.5, 0.5])]  # tasks without spread, to stay off 0 and 1
    x, y = [np.array([0.1, 0.5, 0.9]), *tie * 2], [np.array([0.05, 0.2, 0.3, 0.4, 0.8]), *tie * 2]
    (low, high), uncorrected = ours.improvement_interval(x, y), plain(ours.improvement_interval, x, y)
    placements = np.array([1, 4, 5]) / 5, np.array([3, 2, 2, 2, 1]) / 3  # theirs that each of ours beats; ours that beat each
    factor = ours.expansion([placements[0].var(ddof=1) / 3, placements[1].var(ddof=1) / 5], [3, 5])
    estimate = (10 / 15 + 1 / 2 + 1 / 2) / 3
    assert 0 < low < high < 1
    assert [low - estimate, high - estimate] == pytest.approx([factor * (end - estimate) for end in uncorrected])


def test_both_sides_of_an_improvement_are_resampled_independently():
    runs = [np.array([0.1, 0.2, 0.3, 0.4])]
    low, high = ours.improvement_interval(runs, runs)
    assert low < 0.2 and high > 0.8  # resampled as pairs, it would be ½ each time


def gaussian(rng, runs, means, spreads):
    return [rng.normal(mean, spread, runs) for mean, spread in zip(means, spreads, strict=True)]


SAME = [0.5] * 5, [0.06] * 5
DIFFERENT = [0.3, 0.4, 0.5, 0.6, 0.7], [0.06, 0.01, 0.1, 0.03, 0.015]


# Coverage estimated from 2,000 encodings has a standard error of 0.5 points.
@pytest.mark.parametrize(("runs", "tolerance"), [(5, 0.02), (3, 0.03)])
@pytest.mark.parametrize(("means", "spreads"), [SAME, DIFFERENT])
def test_coverage(runs, tolerance, means, spreads):
    rng = np.random.default_rng(0)
    large = gaussian(rng, 200_000, means, spreads)
    truths = st_scores.mean_score(large), st_scores.iqm(large)
    covered = np.zeros(2)
    for _ in range(2000):
        made = gaussian(rng, runs, means, spreads)
        for i, interval in enumerate(INTERVALS):
            low, high = with_replicates(500, interval, made)
            covered[i] += low <= truths[i] <= high
    assert covered / 2000 == pytest.approx(0.95, abs=tolerance)


@settings(max_examples=50)
@given(encodings)
def test_intervals_contain_the_estimate_and_stay_in_range(made):
    for interval, statistic in ((ours.mean_score_interval, st_scores.mean_score), (ours.iqm_interval, st_scores.iqm)):
        low, high = with_replicates(300, interval, made)
        assert 0 <= low <= statistic(made) + 1e-12 and statistic(made) - 1e-12 <= high <= 1
        plain_low, plain_high = plain(interval, made, replicates=300)
        assert low <= plain_low + 1e-12 and plain_high - 1e-12 <= high
    low, high = with_replicates(100, ours.profile_band, made, THRESHOLDS)
    profile = st_scores.performance_profile(made, THRESHOLDS)
    assert (low >= 0).all() and (low <= profile + 1e-12).all() and (profile - 1e-12 <= high).all() and (high <= 1).all()
    other = [1 - runs[:2] for runs in made]
    low, high = with_replicates(100, ours.improvement_interval, made, other)
    assert (
        0 <= low <= st_scores.probability_of_improvement(made, other) + 1e-12
        and high >= st_scores.probability_of_improvement(made, other) - 1e-12
    )
    assert high <= 1


def test_runs_are_resampled_within_tasks_only():
    # Only tasks differ, so resampling runs changes nothing. A bootstrap over tasks would give [0, 1].
    constant = [np.zeros(5), np.ones(5), np.full(5, 0.5)]
    assert ours.mean_score_interval(constant) == pytest.approx((0.5, 0.5))
    assert ours.iqm_interval(constant) == pytest.approx((0.5, 0.5))
    assert ours.improvement_interval(constant, [np.zeros(4)] * 3) == pytest.approx((2.5 / 3, 2.5 / 3))
    assert ours.profile_band(constant, np.array([0.5])) == pytest.approx(np.full((2, 1), 1 / 3))


def test_a_task_whose_runs_agree_adds_no_width():
    runs = np.array([0.2, 0.3, 0.5, 0.4, 0.1])
    low, high = ours.mean_score_interval([runs])
    assert ours.mean_score_interval([runs, np.full(5, 0.7)]) == pytest.approx(((low + 0.7) / 2, (high + 0.7) / 2))


def test_resamples_are_stratified_and_uniform():
    drawn = ours.resamples((2, 3), 30_000)
    assert drawn.shape == (30_000, 5)
    assert set(np.unique(drawn[:, :2])) == {0, 1} and set(np.unique(drawn[:, 2:])) == {2, 3, 4}
    times = ours.multiplicities((2, 3), 30_000)
    assert (times[:2].sum(0) == 2).all() and (times[2:].sum(0) == 3).all()
    assert times.mean(1) == pytest.approx([1] * 5, abs=0.02)
    assert np.corrcoef(times[0], times[2])[0, 1] == pytest.approx(0, abs=0.02)
    assert (ours.resamples((2, 3), 30_000, stream=1) != drawn).any()


def test_intervals_are_reproducible_and_need_two_runs_per_task():
    made = list(np.random.default_rng(1).random((5, 6)))
    for interval in INTERVALS:
        first = interval(made)
        ours.resamples.cache_clear()
        ours.multiplicities.cache_clear()
        assert interval(made) == first
        assert interval([np.array([0.3]), np.array([0.5])]) is None
        assert interval([np.array([0.3, 0.4]), np.array([0.5])]) is None
    single = [np.array([0.3])] * 5
    assert ours.improvement_interval(made, single) is None and ours.improvement_interval(single, made) is None
    assert ours.profile_band(single, THRESHOLDS) is None
