"""The permutation test against scipy and an enumeration of all splits; Holm's correction against its stepwise procedure."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from leaderboard.stats import significance as ours

scores = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
tasks = st.tuples(*[st.integers(1, 4).flatmap(lambda runs: arrays(float, runs, elements=scores))] * 2)


def enumerated(x, y, slack=1e-9):
    """Share of all splits, over all tasks jointly, whose summed difference of means is at least the observed one."""
    differences = []
    for a, b in zip(x, y, strict=True):
        pooled, k = np.concatenate([a, b]), len(a)
        chosen = [list(c) for c in itertools.combinations(range(len(pooled)), k)]
        differences.append([pooled[c].mean() - np.delete(pooled, c).mean() for c in chosen])
    sums = np.array([sum(split) for split in itertools.product(*differences)])
    return (np.abs(sums) >= abs(sums[0]) - slack).mean()  # the first of combinations() is the observed split


@settings(max_examples=100)
@given(st.lists(tasks, min_size=1, max_size=2))
def test_the_permutation_test_counts_all_splits(made):
    x, y = [a for a, _ in made], [b for _, b in made]
    # Each score is moved by up to half of 1/4,096 of the statistic's range, which is at most 2 a task.
    rounding = sum(map(len, x)) * 2 * len(x) / 4096
    assert enumerated(x, y, -rounding) <= ours.permutation_p(x, y) + 1e-9
    assert ours.permutation_p(x, y) <= enumerated(x, y, rounding) + 1e-9


@given(st.lists(st.tuples(*[st.lists(st.booleans(), min_size=3, max_size=3)] * 2), min_size=1, max_size=3))
def test_the_permutation_test_is_exact_for_zeros_and_ones(made):
    x, y = [np.array(a, float) for a, _ in made], [np.array(b, float) for _, b in made]
    assert ours.permutation_p(x, y) == pytest.approx(enumerated(x, y), abs=1e-9)


def test_the_permutation_test_of_one_task_agrees_with_scipy():
    rng = np.random.default_rng(0)
    for runs in (3, 5, 6):  # equal group sizes: otherwise scipy defines the second tail differently
        x, y = rng.random(runs), rng.random(runs) + 0.2
        theirs = scipy.stats.permutation_test((x, y), lambda a, b: a.mean() - b.mean(), n_resamples=np.inf)
        assert ours.permutation_p([x], [y]) == pytest.approx(theirs.pvalue, abs=1e-9)


def test_the_permutation_test_of_five_tasks_agrees_with_sampled_splits():
    rng = np.random.default_rng(1)
    x, y = rng.random((5, 5)), rng.random((5, 5)) * 0.85
    pooled = np.concatenate([x, y], axis=1)
    drawn = rng.permuted(np.broadcast_to(pooled, (40_000, 5, 10)), axis=2)
    sums = (drawn[..., :5].mean(2) - drawn[..., 5:].mean(2)).sum(1)
    expected = (np.abs(sums) >= abs((x.mean(1) - y.mean(1)).sum())).mean()
    assert 0.05 < expected < 0.5
    assert ours.permutation_p(list(x), list(y)) == pytest.approx(expected, abs=4 * 0.0025)


def test_complete_separation_has_the_smallest_possible_p():
    x, y = [np.full(5, 0.9)] * 5, [np.full(5, 0.1)] * 5
    assert ours.permutation_p(x[:1], y[:1]) == pytest.approx(2 / math.comb(10, 5))
    assert ours.permutation_p(x, y) == pytest.approx(2 / math.comb(10, 5) ** 5, rel=1e-3)
    # Tasks on which all runs agree do not count.
    assert ours.permutation_p([*x[:2], *y], [*y[:2], *y]) == pytest.approx(2 / math.comb(10, 5) ** 2)
    assert ours.permutation_p(x, x) == 1


def test_the_permutation_test_compares_means_not_ranks():
    # A large lead on one task, a tiny lag on four: a rank test would prefer y.
    x = [np.array([0.9, 0.91, 0.92]), *[np.array([0.1, 0.11, 0.12])] * 4]
    y = [np.array([0.1, 0.11, 0.12]), *[np.array([0.13, 0.14, 0.15])] * 4]
    assert ours.permutation_p(x, y) == pytest.approx(0.1, abs=0.01)  # the one task decides: 2 of 20 splits


def test_under_the_null_hypothesis_p_is_uniform():
    rng = np.random.default_rng(2)
    ps = np.array([ours.permutation_p(list(rng.random((3, 4))), list(rng.random((3, 4)))) for _ in range(1000)])
    for level in (0.05, 0.2, 0.5):
        assert (ps <= level).mean() == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / 1000))


def step_down(ps, alpha):
    """Holm's procedure: from the smallest p on, reject while p ≤ α/(comparisons not yet rejected)."""
    rejected = set()
    for i in sorted(range(len(ps)), key=lambda i: ps[i]):
        if ps[i] > alpha / (len(ps) - len(rejected)):
            break
        rejected.add(i)
    return rejected


@given(st.lists(st.floats(0, 0.2), max_size=20), st.floats(0.001, 0.999))
def test_holm_agrees_with_the_stepwise_procedure(ps, alpha):
    adjusted = ours.holm(ps)
    assert {i for i, p in enumerate(adjusted) if p <= alpha * (1 - 1e-9)} <= step_down(ps, alpha)
    assert {i for i, p in enumerate(adjusted) if p <= alpha * (1 + 1e-9)} >= step_down(ps, alpha)


def test_holm_by_hand():
    assert ours.holm([0.04, 0.01, 0.02, 0.5]) == pytest.approx([0.08, 0.04, 0.06, 0.5])
    assert ours.holm([0.03, 0.031]) == pytest.approx([0.06, 0.06])  # never smaller than that of a smaller p


def ahead(rows, *pairs):
    matrix = np.zeros((rows, rows), bool)
    for pair in pairs:
        matrix[pair] = True
    return matrix


@pytest.mark.parametrize(
    ("pairs", "ranks", "places"),
    [
        ([], [1, 1, 1, 1], [(1, 4)] * 4),
        (
            [(0, 2)],
            [1, 1, 2, 2],
            [(1, 3), (1, 4), (2, 4), (1, 4)],
        ),  # the last row is separated from none, but its rank is no better than the third's
        ([(0, 1), (0, 2), (0, 3)], [1, 2, 2, 2], [(1, 1), (2, 4), (2, 4), (2, 4)]),
        ([(0, 2), (0, 3), (1, 3)], [1, 1, 2, 3], [(1, 2), (1, 3), (2, 4), (3, 4)]),
        (list(itertools.combinations(range(4), 2)), [1, 2, 3, 4], [(1, 1), (2, 2), (3, 3), (4, 4)]),
    ],
)
def test_ranks_and_rank_ranges(pairs, ranks, places):
    assert ours.shared_ranks(ahead(4, *pairs)) == ranks
    assert ours.rank_ranges(ahead(4, *pairs)) == places


def test_ranks_of_nothing():
    assert ours.shared_ranks(ahead(0)) == ours.rank_ranges(ahead(0)) == []


@given(st.integers(1, 7).flatmap(lambda n: arrays(bool, (n, n))))
def test_a_rank_is_within_its_range(matrix):
    ranks, places = ours.shared_ranks(matrix), ours.rank_ranges(matrix)
    assert ranks == sorted(ranks)
    assert all(best <= rank <= i + 1 <= worst for i, (rank, (best, worst)) in enumerate(zip(ranks, places, strict=True)))
