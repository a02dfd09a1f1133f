"""The statistical tests of ``lprime verify --rerun``: their error rates, and what they find."""

from math import comb

import numpy as np
import pytest
from scipy.stats import permutation_test
from support import ROOT
from synthetic_results import result
from synthetic_results import suite as synthetic_suite

from bench.result import Result
from leaderboard import PUBLISHED
from leaderboard.data.store import read_runs
from leaderboard.submission.verify import agreement

SYNTHETIC = synthetic_suite(seeds=[0, 1, 2, 3, 4])


def runs_around(rng: np.random.Generator, count: int, mean: float, spread: float, name: str = "nope") -> list[Result]:
    """Runs with normally distributed exact match past L, in hundredths."""
    values = np.clip(rng.normal(mean, spread, count), 0, 1).round(2)
    return [result(SYNTHETIC, encoding=name, seed=seed, exact=(1, 1, v, v)) for seed, v in enumerate(values)]


def board_of(rng: np.random.Generator) -> list[Result]:
    """Twenty encodings with spreads between none and a tenth."""
    return [run for n in range(20) for run in runs_around(rng, 5, rng.uniform(), rng.uniform(0, 0.1), f"pe{n}")]


@pytest.mark.parametrize("board", [board_of(np.random.default_rng(4)), []], ids=["spread of the board", "signs"])
def test_honest_runs_of_another_machine_are_seldom_significant(board, monkeypatch):
    """Each of them differs as another seed would, which is more than another machine does."""
    monkeypatch.setattr(agreement, "DRAWS", 2000)
    rng, alarms, trials = np.random.default_rng(1), 0, 150
    for _ in range(trials):
        mean, spread = rng.uniform(), rng.uniform(0, 0.1)
        submitted, found = (runs_around(rng, 10, mean, spread) for _ in range(2))
        alarms += agreement.joint_p(submitted, found, board, rng)[0] <= agreement.ALPHA
    assert alarms <= 0.03 * trials


def test_invented_results_are_significant_whatever_their_variance():
    rng = np.random.default_rng(2)
    board, found = board_of(rng), runs_around(rng, 10, 0.2, 0.02)
    for spread in (0.0, 0.3):  # once, a great variance hid them
        p, basis = agreement.joint_p(runs_around(rng, 10, 0.6, spread), found, board, rng)
        assert p < 0.001 and basis == "seeds of 20 encodings"
    assert agreement.joint_p(runs_around(rng, 1, 0.9, 0), found[:1], board, rng)[0] < 0.01, "one run"
    shuffled = [result(SYNTHETIC, seed=n, exact=(1, 1, e, e)) for n, e in enumerate([0.05, 0.95] * 5)]
    found = runs_around(rng, 10, 0.5, 0.02)
    assert agreement.joint_p(shuffled, found, board, rng)[0] < 0.01, "the right mean, but other runs"


def test_token_accuracy_is_compared_where_no_answer_is_right_as_a_whole():
    published = read_runs(ROOT / PUBLISHED / "results" / "language")
    found = [run for run in published if run.encoding.name == "rope"][:2]
    scores = [[s.model_copy(update={"token": s.token + 0.3}) for s in run.scores] for run in found]
    invented = [run.model_copy(update={"scores": s}) for run, s in zip(found, scores, strict=True)]
    score = agreement.compared_score(published)
    assert score == "token" and agreement.compared_score([result(SYNTHETIC)]) == "exact"
    honest, claimed = (agreement.joint_p(r, found, published, np.random.default_rng(0), score)[0] for r in (found, invented))
    assert honest == 1 and claimed < 0.001


def test_the_test_of_signs_is_that_of_scipy():
    rng = np.random.default_rng(3)
    submitted, found = runs_around(rng, 8, 0.6, 0.1), runs_around(rng, 8, 0.5, 0.1)
    x, y = ([agreement.mean_score(run, "exact")[1] for run in runs] for runs in (submitted, found))
    expected = permutation_test(
        (x, y), lambda a, b: abs(np.sum(np.subtract(a, b))), permutation_type="samples", n_resamples=np.inf,
        alternative="greater", vectorized=False,
    )  # fmt: skip
    p, basis = agreement.joint_p(submitted, found, [], rng)
    assert p == pytest.approx(min(1, 2 * expected.pvalue))
    assert basis.startswith("signs of 8 differences")


def test_early_losses_of_one_seed_are_equal_but_for_rounding():
    def run(loss: float, device: str = "cpu (a)") -> Result:
        return result(SYNTHETIC, loss=[(10, loss), (20, 1.0)], device=device)

    assert not agreement.other_early_loss(run(2.0), run(2.0002, "cpu (b)"))
    assert agreement.other_early_loss(run(2.0), run(2.006)), "as another seed"
    assert not agreement.other_early_loss(run(2.0, "NVIDIA H100"), run(2.006)), "bf16"


def test_new_examples_of_one_model_are_seldom_significant():
    rng, alarms, trials = np.random.default_rng(3), 0, 400
    for _ in range(trials):
        truth = rng.uniform(0, 1, 4)
        one, other = (result(SYNTHETIC, exact=tuple(rng.binomial(100, truth) / 100)) for _ in range(2))
        alarms += bool(agreement.significant(agreement.compare_by_examples(one, other)))
    assert alarms <= 0.02 * trials


def test_examples_are_compared_by_fishers_exact_test():
    """p is the sum over all tables with these margins that are at most as likely as the observed one."""
    one, other = (result(SYNTHETIC, exact=(1, 1, 1, exact)) for exact in (0.30, 0.45))
    *_, last = agreement.compare_by_examples(one, other)
    a, b, n = 30, 45, 100
    ways = [comb(n, k) * comb(n, a + b - k) for k in range(a + b + 1)]
    assert last.p == pytest.approx(sum(w for w in ways if w <= ways[a]) / sum(ways), rel=1e-6)


def test_environments_are_the_same_by_device_threads_torch_and_numpy():
    one = result(SYNTHETIC, versions={"torch": "2", "numpy": "2", "python": "3.11"})
    other_python = one.model_copy(update={"versions": {"torch": "2", "numpy": "2", "python": "3.12"}})
    assert agreement.same_environment(one, other_python)
    for change in ({"device": "gpu"}, {"threads": 2}, {"versions": {"torch": "3", "numpy": "2"}}, {"versions": {}}):
        assert not agreement.same_environment(one, one.model_copy(update=change))
