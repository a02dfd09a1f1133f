"""Transfer from synthetic tasks to text: τ against scipy, and what the rule finds in simulated data."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

from leaderboard.stats.transfer import predicted, share_better, tau, transfer


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=20))
def test_tau_is_scipys(pairs):
    x, y = np.array(pairs, float).T
    np.testing.assert_allclose(tau(x, y), kendalltau(x, y).statistic, atol=1e-12)


def simulated(count=24, noise=0.1):
    """Text depends on the task ``related`` alone."""
    rng = np.random.default_rng(0)
    names = [f"e{i}" for i in range(count)]
    scores = pd.DataFrame({"related": rng.random(count), "other": rng.random(count)}, index=names)
    rise = -scores["related"] + noise * rng.standard_normal(count)
    return scores.assign(far=rise + 2, rise=rise, worth=-rise)


def test_a_related_task_transfers_and_an_unrelated_one_does_not():
    both = simulated()
    found = transfer(both, ["related", "other"])
    assert (found.loc["related", "low"] > 0.3).all() and (found.loc["related", "tau"] < found.loc["related", "high"]).all()
    assert (found.loc["other", "low"] < 0).all() and (found.loc["other", "high"] > 0).all()
    assert set(found["encodings"]) == {24}


def test_weights_predict_better_where_one_task_matters():
    both = simulated()
    predictions = predicted(both, ["related", "other"])
    assert share_better(predictions) > 0.95
    both.loc["e0", "rise"] = 100.0  # an encoding's own result does not enter its prediction
    assert predicted(both, ["related", "other"]).loc["e0", "weighted"] == predictions.loc["e0", "weighted"]
