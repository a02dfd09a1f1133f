"""The separation test against a direct computation, scipy and simulation; tiers and places."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from support import ROOT
from synthetic_results import result, store, suite

from leaderboard.data.store import publish_runs, published_grids
from leaderboard.stats import significance as ours
from leaderboard.stats import simulation
from leaderboard.stats.summary import separation, summarise


def slow_ps(scores, signs):
    """The test as its docstring describes it, pair by pair and replicate by replicate.

    Arguments:
        signs: replicate → encoding → task → sign of each run.
    """
    pairs, tasks = list(itertools.combinations(range(len(scores)), 2)), range(len(scores[0]))

    def statistics(made, centres):
        def squares(e, t):
            return sum((x - np.mean(made[e][t])) ** 2 for x in made[e][t])

        def variance(e, t):
            freedom = [len(other[t]) - 1 for other in made]
            common = sum(squares(o, t) for o in range(len(made))) / sum(freedom)
            return (8 * common + squares(e, t)) / (8 + freedom[e]) / len(made[e][t])

        def overall(e):
            return np.mean([np.mean(made[e][t]) - centres[e][t] for t in tasks])

        def error(i, j):
            return sum(variance(e, t) for e in (i, j) for t in tasks) ** 0.5 / len(tasks)

        return [abs(overall(i) - overall(j)) / error(i, j) for i, j in pairs]

    nothing = [[0 for _ in tasks] for _ in scores]
    observed = statistics(scores, nothing)
    residuals = [[(x - x.mean()) * (len(x) / (len(x) - 1)) ** 0.5 for x in encoding] for encoding in scores]
    drawn = [
        statistics([[r * f for r, f in zip(*one, strict=True)] for one in zip(residuals, flips, strict=True)], nothing)
        for flips in signs
    ]
    adjusted, least = [0.0] * len(pairs), 0.0
    remaining = sorted(range(len(pairs)), key=lambda k: -observed[k])
    for place, k in enumerate(remaining):
        beyond = sum(max(one[other] for other in remaining[place:]) >= observed[k] - 1e-9 for one in drawn)
        least = max(least, (1 + beyond) / (1 + len(drawn)))
        adjusted[k] = least
    return adjusted


def test_the_test_is_what_its_docstring_says():
    rng = np.random.default_rng(0)
    scores = [[rng.normal(level + 0.1 * t, 0.1, runs) for t in range(2)] for level, runs in ((0.4, 3), (0.5, 5), (0.55, 4))]
    draws = np.random.default_rng(5)
    flips = [[draws.choice(np.array([-1.0, 1.0]), (len(task), 60)) for task in tasks] for tasks in scores]
    signs = [[[flip[:, b] for flip in tasks] for tasks in flips] for b in range(60)]
    assert ours.separation_ps(scores, replicates=60, seed=5) == pytest.approx(slow_ps(scores, signs))


def test_two_encodings_with_many_runs_have_the_p_of_a_t_test():
    rng = np.random.default_rng(1)
    for shift in (0.0, 0.1, 0.3, 0.4):
        x, y = rng.normal(0, 1, 100), rng.normal(shift, 1, 100)
        (p,) = ours.separation_ps([[x], [y]])
        assert p == pytest.approx(scipy.stats.ttest_ind(x, y).pvalue, abs=0.02)


def test_more_encodings_make_p_larger_and_equal_ones_are_never_separated():
    rng = np.random.default_rng(2)
    made = [[rng.normal(0.5 + 0.03 * (e == 0), 0.02, 5) for _ in range(3)] for e in range(8)]
    (alone,), among = ours.separation_ps(made[:2]), ours.separation_ps(made)
    assert alone < among[0] < 0.05 and (among[7:] > 0.05).all()
    assert ours.separation_ps([made[0], made[0]]) == [1]
    constant = [[np.full(5, level)] * 2 for level in (0.2, 0.2, 0.7)]
    assert ours.separation_ps(constant) == pytest.approx([1, 1 / 10_001, 1 / 10_001])
    assert len(ours.separation_ps(made[:1])) == len(ours.separation_ps([])) == 0


def test_errors_are_rare_with_unequal_spreads_and_numbers_of_runs():
    """The full table of errors and power: ``python -m leaderboard.stats.simulation``."""
    atoms = np.random.default_rng(3).normal(0.5, [[[0.01]], [[0.03]], [[0.1]], [[0.03]]], (4, 5, 5)).repeat(2, 0)
    for case in (simulation.equal_means, simulation.groups_of_four):
        errors, _ = simulation.measure(case, simulation.by_the_rule, simulation.TESTS["step-down maximum"], atoms, 60)
        assert errors <= 0.05 + 3 * (0.05 * 0.95 / 60) ** 0.5


def test_the_simulation_compares_with_welchs_test_and_holms_correction():
    rng = np.random.default_rng(4)
    runs = [rng.normal(mean, spread, count) for mean, spread, count in ((0.5, 0.1, 5), (0.6, 0.02, 3), (0.75, 0.05, 4))]
    raw = [scipy.stats.ttest_ind(x, y, equal_var=False).pvalue for x, y in itertools.combinations(runs, 2)]
    first, second, third = np.argsort(raw)
    expected = np.empty(3)
    expected[first] = 3 * raw[first]
    expected[second] = max(expected[first], 2 * raw[second])
    expected[third] = max(expected[second], raw[third])
    assert simulation.welch_holm_ps([[x] for x in runs]) == pytest.approx(expected)


def test_the_simulation_draws_from_a_published_board(tmp_path, monkeypatch, capsys):
    """The scores have the mean of each cell, and the variance that its runs estimate."""
    of = suite(encodings=["nope", "rope"])
    levels = {"nope": (0.3, 0.4, 0.8), "rope": (0.5, 0.6, 0.9)}
    runs = [result(of, "sorting", name, seed, (1, 1, x, x)) for name, past in levels.items() for seed, x in enumerate(past)]
    store(tmp_path / "runs", runs + [result(of, "parity", name, seed, (1, 1, 1, 1)) for name in levels for seed in of.seeds])
    publish_runs(of, tmp_path / "runs", tmp_path / "board")
    population = simulation.published_population(tmp_path / "board", "tiny", None)
    assert population.mean(-1)[:, 1] == pytest.approx([2 / 3, 0.5], abs=0.01), "rope is first; chance is next to nothing"
    assert population.var(-1)[:, 1] == pytest.approx([np.var(levels[name], ddof=1) for name in ("rope", "nope")], abs=0.001)
    assert population[:, 0] == pytest.approx(np.ones((2, 3)))
    command = ["simulation", "--folder", str(tmp_path / "board"), "--suite", "tiny", "--boards", "2"]
    monkeypatch.setattr("sys.argv", command)
    simulation.main()
    assert capsys.readouterr().out.count("\n") == 2 + len(simulation.CASES) * len(simulation.SEEDS)
    monkeypatch.setattr("sys.argv", [*command, "--suite", "tinny"])
    with pytest.raises(SystemExit):
        simulation.main()
    assert "did you mean 'tiny'?" in capsys.readouterr().err


def ahead(rows, *pairs):
    matrix = np.zeros((rows, rows), bool)
    for pair in pairs:
        matrix[pair] = True
    return matrix


@pytest.mark.parametrize(
    ("pairs", "tiers", "places"),
    [
        ([], [1, 1, 1, 1], [(1, 4)] * 4),
        (
            [(0, 2)],
            [1, 1, 2, 2],
            [(1, 3), (1, 4), (2, 4), (1, 4)],
        ),  # the last row is separated from none, but its tier is no better than the third's
        ([(0, 1), (0, 2), (0, 3)], [1, 2, 2, 2], [(1, 1), (2, 4), (2, 4), (2, 4)]),
        ([(0, 2), (0, 3), (1, 3)], [1, 1, 2, 2], [(1, 2), (1, 3), (2, 4), (3, 4)]),
        (list(itertools.combinations(range(4), 2)), [1, 2, 3, 4], [(1, 1), (2, 2), (3, 3), (4, 4)]),
    ],
)
def test_tiers_and_places(pairs, tiers, places):
    assert ours.tiers(ahead(4, *pairs)) == tiers
    assert ours.possible_places(ahead(4, *pairs)) == places


def test_tiers_of_nothing():
    assert ours.tiers(ahead(0)) == ours.possible_places(ahead(0)) == []


@given(st.integers(1, 7).flatmap(lambda n: arrays(bool, (n, n))))
def test_tiers_are_the_fewest_stretches_of_rows_without_a_separated_pair(matrix):
    def whole(start, stop):
        return not any(matrix[i, j] for i, j in itertools.combinations(range(start, stop), 2))

    fewest = [0]  # of the first rows, by dynamic programming
    for stop in range(1, len(matrix) + 1):
        fewest.append(1 + min(fewest[start] for start in range(stop) if whole(start, stop)))
    tiers = ours.tiers(matrix)
    assert tiers == sorted(tiers) and tiers[-1] == fewest[-1]
    assert all(whole(tiers.index(tier), tiers.index(tier) + tiers.count(tier)) for tier in tiers)
    assert all(best <= i + 1 <= worst for i, (best, worst) in enumerate(ours.possible_places(matrix)))


def test_published_leaders_have_the_seeds_that_the_rules_ask_for():
    grid = published_grids(ROOT / "leaderboard/published")["small"][0]
    first = {cell: tuple(run for run in runs if run.seed in grid.suite.seeds) for cell, runs in grid.runs.items()}
    for rows in summarise(replace(grid, runs=first)).values():
        lead = next(row for row in rows if row.ps)
        for row in rows:
            if row is lead or (row.ps and separation(lead, row) is None):
                seeds = {run.seed for column in grid.columns for run in grid.runs[column.task, row.name]}
                assert seeds >= set(range(10)), f"{row.name} is not separated from {lead.name} by seeds 0 to 4"
