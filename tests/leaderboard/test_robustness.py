"""Does the order hold? The statistics, against independent computations."""

import itertools
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays
from synthetic_results import only_grid, suite
from varied_suite import BASE, HALF, NAMES, OF, SWAPPED, TWICE, VARY, board_of, runs_of, varied, words_of

from leaderboard.data.conditions import attach
from leaderboard.render.robustness_text import robustness_tables
from leaderboard.stats import orders
from leaderboard.stats import robustness as rb


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
