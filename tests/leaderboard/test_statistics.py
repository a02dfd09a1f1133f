"""Statistics of the board against scipy, closed forms and brute force."""

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from synthetic_results import CURVE, GOOD, board, full, record, result, suite

from leaderboard.render.columns import signs
from leaderboard.render.web import recipe
from leaderboard.stats import ranks, reliability, scores
from leaderboard.stats.rates import at_an_end, with_choice

LENGTHS = np.array([5, 10, 15, 20, 50])
L = 10
shares = st.floats(0, 1)
block_means = st.integers(3, 8).flatmap(lambda count: arrays(float, (2, count), elements=st.floats(0.2, 0.8)))


@given(arrays(float, 5, elements=shares))
def test_every_octave_beyond_l_has_the_same_weight(exact):
    """The weighted mean is the mean of a staircase over log l: from one test length to the next, the cell of the longer one."""
    at = np.exp(np.linspace(np.log(10), np.log(50), 20_001)[1:])
    stairs = exact[np.searchsorted(LENGTHS, np.round(at, 9))]
    assert scores.length_weights(LENGTHS, L) @ exact == pytest.approx(stairs.mean(), abs=1e-3)


@pytest.mark.parametrize("exact", [(1, 1, 1, 0.25), (1, 1, 0.5, 0.5), (1, 1, 0, 1), (1, 1, 0, 0.5), (0, 0, 1, 1)])
def test_a_score_takes_out_guessing_and_is_floored_once_after_the_mean(exact):
    """Parity has chance ½ and the lengths 6 and 8 beyond L: a lucky length and an unlucky one earn what their mean does."""
    row = board([result(suite(), "parity", exact=exact)]).runs.iloc[0]
    weight = np.log(6 / 4) / np.log(2)
    by_hand = weight * (2 * exact[2] - 1) + (1 - weight) * (2 * exact[3] - 1)
    assert row["score"] == pytest.approx(max(0.0, by_hand))
    assert row["within"] == pytest.approx(np.mean(exact[:2]))


def test_runs_of_blocks_are_scored_at_their_own_lengths_and_drawn_at_those_of_the_first():
    of, exact = suite(blocks=[{}, {"train_length": 1.5}], seeds=[0, 1]), np.array(CURVE)
    one = dict(fingerprint=of.fingerprint)
    runs = [result(of.at(seed, None), "sorting", "nope", seed, exact, data_hash=f"{seed}", **one) for seed in of.seeds]
    made, longer = board(runs).runs.sort_values("seed"), np.array([5, 9, 14, 18])  # L = 9
    assert made["length"].iloc[1].tolist() == longer.tolist() and made["train_length"].tolist() == [6, 9]
    for at, L, score in ([3, 6, 9, 12], 6, made["score"].iloc[0]), (longer, 9, made["score"].iloc[1]):
        weight = np.log(at[2] / L) / np.log(2)
        assert score == pytest.approx(weight * exact[2] + (1 - weight) * exact[3], abs=1e-3)  # chance is 1/9! at most
    at, values = scores.curve(made)
    interpolated = np.interp(np.log([0.5, 1, 1.5, 2]), np.log(longer / 9), exact)
    assert at.tolist() == [0.5, 1, 1.5, 2] and values == pytest.approx(np.array([exact, interpolated]), abs=1e-2)
    assert recipe("as ranked", made, False)["at"]["sorting"] == [[0.5, 1, 1.5, 2], [0.556, 1, 1.556, 2]]


def test_signs_after_a_name():
    of, runs = suite(), full(suite(), {"nope": GOOD, "lost": (0.5, 0.5, 1, 1)})
    for name, changes in {"rich": {"sees_content": True}, "dear": {"sees_content": True, "step_ratio": 1.6}}.items():
        runs += full(of, {name: GOOD}, **changes)
    runs += [result(of, task.task, record("shy", source="second-hand"), seed, GOOD) for task in of.tasks for seed in of.seeds]
    found = {row["encoding"]: signs(row) for _, row in board(runs).rows.iterrows()}
    assert found == {"nope": "", "lost": " ⚑", "rich": " ◉", "dear": " ◉ ▲", "shy": " ≈"}


@pytest.mark.parametrize(
    ("mean", "limit", "mark"),
    [
        ([1, 1, 1, 1, 1], 5, "≥"),
        ([0.4, 1, 1, 1, 1], 0.5, "<"),
        ([1, 1, 0.5, 0.5, 0.5], 5, "≥"),
        ([1, 1, 1, 0, 1], 1.7320508, ""),
    ],
)
def test_length_limit(mean, limit, mark):
    found = scores.length_limit(LENGTHS / L, np.array(mean, float))
    assert found == (pytest.approx(limit), mark)


@given(block_means)
def test_two_encodings_have_the_interval_of_a_paired_t_test(blocks):
    difference, half = ranks.differences(blocks)
    test = scipy.stats.ttest_rel(*blocks)
    known = test.confidence_interval(0.95)
    if np.isfinite(known.low):
        assert ranks.pair_ps(blocks)[0, 1] == pytest.approx(np.nan_to_num(test.pvalue, nan=1), abs=1e-6)
        assert (difference - half)[0, 1] == pytest.approx(known.low, abs=1e-6)
        assert (difference + half)[0, 1] == pytest.approx(known.high, abs=1e-6)


@given(arrays(float, (1, 5), elements=st.floats(0.45, 0.55)))
def test_a_single_encoding_has_the_interval_of_student(blocks):
    spread = scipy.stats.sem(blocks[0])
    half = scipy.stats.t.ppf(0.975, 4) * spread
    assert ranks.interval(blocks)[0] == pytest.approx([blocks.mean() - half, blocks.mean() + half], abs=1e-9)


def test_what_all_encodings_share_in_a_block_is_taken_out():
    rng = np.random.default_rng(0)
    own, shared = rng.random((4, 6)), 5 * rng.standard_normal(6)
    assert ranks.pair_ps(own + shared) == pytest.approx(ranks.pair_ps(own), nan_ok=True)
    missing = (own + shared).copy()
    missing[0, 0] = np.nan  # an additive fit: least squares with an indicator for each encoding and block
    design = np.array([[i == r for r in range(4)] + [j == b for b in range(1, 6)] for i in range(4) for j in range(6)], float)
    known = ~np.isnan(missing.ravel())
    fit = np.linalg.lstsq(design[known], missing.ravel()[known], rcond=None)[0]
    means = np.nanmean(ranks.centred(missing), axis=1)
    assert means - means[0] == pytest.approx(fit[:4] - fit[0], abs=1e-6)


def test_a_block_of_a_single_encoding_compares_nothing():
    apart = np.array([[0.8, 0.9, np.nan, np.nan], [np.nan, np.nan, 0.6, 0.8]])
    assert np.isnan(ranks.pair_ps(apart)).all() and np.isnan(ranks.differences(apart)[0]).all()
    assert ranks.centred(apart) == pytest.approx(apart, nan_ok=True)
    shared = np.random.default_rng(4).random((3, 4))
    more = np.c_[shared, [0.1, np.nan, np.nan]]
    assert ranks.pair_ps(more) == pytest.approx(ranks.pair_ps(shared), abs=0.02, nan_ok=True)
    assert ranks.centred(more)[:, :4] == pytest.approx(ranks.centred(shared))


def test_false_differences_are_rare_and_true_ones_found(monkeypatch):
    """Boards of six equal encodings, with a shared effect of the block; then one that is three deviations better."""
    monkeypatch.setattr(ranks, "REPLICATES", 1000)
    rng = np.random.default_rng(1)
    boards = [0.5 + 0.05 * rng.standard_normal((6, 5)) + 0.1 * rng.standard_normal(5) for _ in range(150)]
    assert np.mean([np.nanmin(ranks.pair_ps(one)) <= ranks.ALPHA for one in boards]) < 0.11
    better = [one + 0.15 * (np.arange(6) == 0)[:, None] for one in boards[:40]]
    assert np.mean([np.nanmax(ranks.pair_ps(one)[0, 1:]) <= ranks.ALPHA for one in better]) > 0.7


def test_intervals_cover_the_mean():
    rng = np.random.default_rng(2)
    boards = 0.5 + 0.05 * rng.standard_normal((400, 3, 5)) + 0.05 * rng.standard_normal((400, 1, 5))
    bounds = np.array([ranks.interval(one) for one in boards])
    assert 0.92 < ((bounds[..., 0] <= 0.5) & (bounds[..., 1] >= 0.5)).mean() < 0.98


@given(arrays(float, 5, elements=st.sampled_from([0.1, 0.2, 0.3])), arrays(float, (5, 5), elements=shares))
def test_rank_intervals_count_who_is_better_and_worse(means, ps):
    ps = np.minimum(ps, ps.T)
    found = ranks.rank_intervals(means, ps)
    for n in range(5):
        better = sum(ps[n, m] <= 0.05 and means[m] > means[n] for m in range(5))
        worse = sum(ps[n, m] <= 0.05 and means[m] < means[n] for m in range(5))
        assert found[n].tolist() == [1 + better, 5 - worse]


def test_first_under_random_weights_of_two_tasks_is_a_length():
    """A scores (1, 0), B (0, ½) with one block: A leads where w > (1 − w)/2, that is w > ⅓."""
    first, places = ranks.under_random_weights(np.array([[[1.0, 0.0]], [[0.0, 0.5]]]))
    assert first == pytest.approx([2 / 3, 1 / 3], abs=0.02) and places.tolist() == [[1, 2], [1, 2]]


def test_a_block_that_lacks_a_task_says_nothing_about_the_first():
    scores = np.random.default_rng(5).random((3, 4, 2))
    scores[0, 0, 1], whole = np.nan, scores.copy()
    whole[0, 0] = np.nan
    for part, known in zip(ranks.under_random_weights(scores), ranks.under_random_weights(whole), strict=True):
        assert np.array_equal(part, known)


def swept(losses, **more):
    """Runs of one encoding and task: a loss within L for each seed (row) and learning rate (column)."""
    rows = [
        {"encoding": "nope", "task": "sorting", "seed": s, "learning_rate": 0.001 * (r + 1), "loss_within": loss}
        for (s, r), loss in np.ndenumerate(np.array(losses, float))
    ]
    return pd.DataFrame(rows).assign(**more)


@given(arrays(float, (4, 3), elements=st.one_of(st.floats(0, 9), st.just(np.inf)), unique=True))
def test_the_other_seeds_choose_the_learning_rate(losses):
    runs = with_choice(swept(losses))
    for seed in range(4):
        others = np.delete(losses, seed, axis=0).T  # fewer diverged runs first, then the smaller loss
        best = min(range(3), key=lambda r, all=others: (np.isinf(all[r]).sum(), all[r][np.isfinite(all[r])].sum()))
        (chosen,) = runs[(runs["seed"] == seed) & runs["chosen"]]["learning_rate"]
        assert chosen == pytest.approx(0.001 * (1 + best))


def test_accuracy_beyond_l_chooses_nothing_and_ends_are_counted():
    runs = with_choice(swept([[3, 1, 2]] * 3, score=[0, 0, 1] * 3))
    assert runs[runs["chosen"]]["learning_rate"].unique().tolist() == [0.002] and at_an_end(runs).tolist() == [0]
    assert at_an_end(with_choice(swept([[1, 2, 3]] * 3))).tolist() == [1]


def test_generalisability_is_that_of_an_analysis_of_variance():
    values = np.random.default_rng(3).random((5, 4)) + np.arange(5)[:, None] / 5
    grand = values.mean()
    of_rows = 4 * ((values.mean(1) - grand) ** 2).sum() / 4
    error = sum(
        (values[i, j] - values[i].mean() - values[:, j].mean() + grand) ** 2 for i, j in itertools.product(range(5), range(4))
    ) / (4 * 3)
    assert reliability.generalisability(values) == pytest.approx(1 - error / of_rows)
    more = np.c_[values, [0.9, 0.1, np.nan, np.nan, np.nan]]
    assert reliability.generalisability(more) == pytest.approx(1 - error / of_rows), "of blocks that all have"


def test_reliability_of_a_board():
    curves = {f"e{n}": (1, 1, 1 - n / 10, 0) for n in range(6)}
    made = board(full(suite(encodings=list(curves)), curves))
    found, better = reliability.reliability(made), made.rows[["score.sorting", "score.parity"]].head(3)
    assert found["floor"]["sorting"] == pytest.approx(6 / 12) and found["ceiling"]["sorting"] == pytest.approx(1 / 12)
    assert found["order"] == pytest.approx(1) and np.isnan(found["at_an_end"])
    assert found["alpha"] == pytest.approx(2 * (1 - better.var().sum() / better.sum(axis=1).var())), "Cronbach 1951, of two"


def test_a_board_ranks_encodings_and_keeps_incomplete_ones_apart():
    of = suite(encodings=["nope", "rope", "alibi"])
    runs = full(of, {"nope": CURVE, "rope": (1, 1, 1, 1)})
    rows = board([*runs, result(of, "sorting", "alibi")]).rows.set_index("encoding")
    assert rows.index.tolist() == ["rope", "nope", "alibi"] and rows["complete"].tolist() == [True, True, False]
    assert rows["rank"].tolist()[:2] == [1, 2] and np.isnan(rows["rank"]["alibi"]) and rows["missing"]["alibi"] == "parity"
    assert rows["score"]["rope"] == pytest.approx(1) and rows["fails_within"].tolist() == ["", "", ""]


def test_learning_rates_that_lack_make_a_row_incomplete_and_rare_ones_do_not_count():
    of, names = suite(), ("nope", "rope", "alibi", "t5", "fire")
    runs = [run for rate in (0.1, 0.2) for run in full(of, dict.fromkeys(names, CURVE), learning_rate=rate)]
    runs = [run for run in runs if (run.encoding.name, run.seed, run.learning_rate) != ("alibi", 0, 0.2)]
    some = [run for run in runs if (run.encoding.name, run.learning_rate) != ("rope", 0.2)]
    made = board([*some, *(run for run in full(of, dict.fromkeys(names, (1, 1, 1, 1)), learning_rate=0.3) if run.seed == 0)])
    rows = made.rows.set_index("encoding")
    assert rows["complete"].to_dict() == dict.fromkeys(names, True) | {"rope": False}
    low, high = (board(full(of, {"nope": exact})).rows["score"][0] for exact in (CURVE, GOOD))
    both = board([*full(of, {"nope": CURVE}, learning_rate=0.1), *full(of, {"nope": GOOD}, learning_rate=0.2)]).rows.iloc[0]
    assert (both["rate_low"], both["rate_high"]) == pytest.approx((low, high))
    assert rows["blocks"]["alibi"] == 2 and made.left_out == 10 and rows["score"]["nope"] == rows["score"]["t5"]


def test_a_diverged_run_counts_as_zero_in_the_length_limit():
    of = suite()
    runs = full(of, {"nope": (1, 1, 1, 1), "rope": (1, 1, 1, 1)})
    zero = {"status": "diverged", "scores": result(of, "parity", exact=(0, 0, 0, 0)).scores}
    runs = [run.model_copy(update=zero if (run.task, run.seed) == ("parity", 0) else {}) for run in runs]
    assert board(runs).rows["limit_mark.parity"].tolist() == ["≥", "≥"], "two thirds right, where guessing is a half"


def test_seeds_decide_whether_a_rank_is_certain():
    of = suite(seeds=[0])
    rows = board(full(of, {"nope": CURVE, "rope": (1, 1, 1, 1)})).rows
    assert rows[["low", "high", "rank_low", "rank_high"]].isna().all().all(), "a single block says nothing about chance"
