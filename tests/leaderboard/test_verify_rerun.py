"""``lprime verify --rerun``: honest runs agree, edited ones do not, and the statistical tests keep their error rates."""

import hashlib
import re
from collections import Counter
from functools import partial
from math import comb
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import hypergeom
from submissions import (
    NAME,
    PERFECT,
    edit_each,
    edit_report,
    make_submission,
    make_submission_apart,
    make_suite,
    read_results,
    reseal,
)
from synthetic_results import full, result
from synthetic_results import suite as synthetic_suite

from bench.check import check_encoding
from bench.check.checks import Fault
from bench.check.report import Finding
from bench.plugins import registry
from bench.plugins.registry import get_encoding
from bench.runs.run import Run
from bench.runs.run_one import run_one
from leaderboard.submission.manifest import SUBMISSION, Submission
from leaderboard.submission.verify import RerunOptions, agreement, rerun, verify_submission
from leaderboard.submission.verify.read_untrusted import Contents
from leaderboard.submission.verify.submission_checks import SubmissionData

SUITE = make_suite(seeds=[0, 1, 2, 3, 4])


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> Path:
    """A submission with five seeds, in place of the one that other tests share."""
    return make_submission_apart(tmp_path_factory.mktemp("honest"), SUITE)


@pytest.fixture
def in_process(monkeypatch, tmp_path):
    """Runs in this process rather than in others, which take ten seconds to start; and one check in place of all."""
    monkeypatch.setattr(registry, "loaded", registry.Loaded())
    monkeypatch.setattr(rerun, "check_encoding", partial(check_encoding, only=["interface"]))

    def train_runs(data, suite, chosen):
        monkeypatch.setattr(registry, "loaded", registry.Loaded())
        with rerun.source_folder(data) as (reference, _, _):
            name = get_encoding(reference).info.name
            return [run_one(Run(suite, r.task, name, r.seed), tmp_path / f"rerun-{suite.test_seed}", "cpu") for r in chosen]

    monkeypatch.setattr(rerun, "train_runs", train_runs)


def findings_of(folder: Path, suite=SUITE, **changes) -> dict[str, Finding]:
    options = RerunOptions(**{"rerun": 2, "fresh": True, "seed": 7} | changes)
    return {f.check: f for f in verify_submission(folder, suite, options=options).findings}


def failures(findings: dict[str, Finding]) -> dict[str, str]:
    return {name: f.found for name, f in findings.items() if f.status != "passed"}


def make_perfect(run: dict) -> None:
    """Perfect scores, with a loss that falls accordingly, which no static check detects."""
    for score in run["scores"]:
        score.update(PERFECT)
    run["loss"] = [[step, loss / (1 + step * (1 + run["seed"] / 7))] for step, loss in run["loss"]]


# --- in separate processes


@pytest.mark.sandbox
def test_an_honest_submission_agrees_bit_for_bit(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(rerun, "check_encoding", partial(check_encoding, only=["interface"]))
    monkeypatch.setattr(registry, "loaded", registry.Loaded())
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    messages = []
    findings = findings_of(folder, rerun=1, fresh=False, workers=1, say=messages.append)
    assert failures(findings) == {}
    assert re.fullmatch(r"(copying|parity) seed \d: 1 bit for bit; 1 of 10 runs, choice seed 7; had 2 been edited, 80% of such "
                        r"choices would miss all", findings["rerun"].found)  # fmt: skip
    assert messages[1].startswith("training ")
    assert not registry.loaded.plugins, "this process has loaded nothing"


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("line", "message", "limit"),
    [("raise OSError('no')", "OSError: no", 60), ("while True: pass", "still running after 2 s, the limit", 2)],
)
def test_source_that_fails_or_hangs(honest, line, message, limit):
    source = (honest / f"source/{NAME}.py").read_text().replace("class MyEncoding", f"{line}\nclass MyEncoding")
    submission = Submission.model_validate_json((honest / SUBMISSION).read_text())
    contents, options = Contents({f"source/{NAME}.py": source.encode()}), RerunOptions(1, False, 0, 1, limit)
    data = SubmissionData(NAME, contents, SUITE, rerun=options, parsed={"submission": submission})
    with pytest.raises(Fault, match=f"copying {NAME} seed 0 gave no result: .*{message}"):
        rerun.train_runs(data, SUITE, read_results(honest)[:1])


# --- edits that no static check detects


def test_edited_losses_and_scores_are_detected(folder, in_process):
    edit_each(folder, make_perfect)
    failed = failures(findings_of(folder))
    assert list(failed) == ["rerun", "fresh tests"]
    assert "differs in loss, scores (exact match 1.000 and 1.000 submitted, exact match 0." in failed["rerun"]
    assert "though device and versions are the same" in failed["rerun"]
    assert "differs in loss, though device and versions are the same" in failed["fresh tests"]


def test_edited_scores_are_detected_on_new_examples(folder, in_process):
    def make_perfect_past_l(run: dict) -> None:
        for score in run["scores"]:
            if score["length"] > run["train_length"]:
                score.update(PERFECT)

    edit_each(folder, make_perfect_past_l)
    failed = failures(findings_of(folder))
    assert list(failed) == ["rerun", "fresh tests"]
    assert "differs in scores (" in failed["rerun"]
    assert re.search(r"length 8: 1\.000 submitted, 0\.\d+ found", failed["fresh tests"])


def test_an_honest_submission_passes(folder, in_process):
    findings = findings_of(folder)
    assert failures(findings) == {}
    assert "2 bit for bit" in findings["rerun"].found
    assert "no significant difference in 8 tests; test seed " in findings["fresh tests"].found


def move_elsewhere(run: dict) -> None:
    """Runs as from another machine: another device, and other rounding, so that the same seed trains differently."""
    run["device"] = "cpu (another one)"
    run["loss"] = [[step, loss * (1 + 1e-3 * step)] for step, loss in run["loss"]]


def test_results_of_another_machine_are_compared_by_the_variance_of_seeds(folder, in_process):
    edit_each(folder, move_elsewhere)
    findings = findings_of(folder)
    assert failures(findings) == {}
    assert "0 bit for bit, 2 by the test: no significant difference" in findings["rerun"].found
    edit_each(folder, make_perfect)
    failed = failures(findings_of(folder))
    assert list(failed) == ["rerun", "fresh tests"]
    assert re.search(r"copying seed \d, l > L: 1\.000 submitted, 0\.000 found \(p = ", failed["rerun"])


def test_a_single_seed_of_another_machine_fails(tmp_path, in_process):
    suite = make_suite(seeds=[0])
    folder = make_submission(tmp_path, suite)
    edit_each(folder, move_elsewhere)
    assert "a single seed does not show how much such runs vary" in failures(findings_of(folder, suite))["rerun"]


def test_a_forged_check_report_is_detected_by_checking_again(folder, monkeypatch, in_process):
    source = (folder / f"source/{NAME}.py").read_text().replace("at.distances", "at.distances.div(at.layer - at.layer)")
    (folder / f"source/{NAME}.py").write_text(source)
    digest = hashlib.sha256(source.encode()).hexdigest()
    edit_report(folder, lambda report: report.update(source_sha256=digest))
    edit_each(folder, lambda run: run["encoding"].update(source_sha256=digest))
    reseal(folder, lambda content: content.update(source_sha256=digest))
    failed = failures(findings_of(folder))
    assert list(failed) == ["check again", "rerun", "fresh tests"]
    assert failed["check again"].startswith("my_encoding.py, line ") and "`bias` returns NaN" in failed["check again"]


def test_no_code_runs_if_a_check_of_its_data_fails(folder, monkeypatch):
    monkeypatch.setattr(rerun, "check_encoding", lambda *_, **__: pytest.fail("ran"))
    monkeypatch.setattr(rerun, "train_runs", lambda *_: pytest.fail("ran"))
    reseal(folder, lambda content: content.update(title="<b>"))
    findings = findings_of(folder)
    last = [findings[name] for name in ("check again", "rerun", "fresh tests")]
    assert [(f.status, f.found) for f in last] == [("not run", "a check of its data failed, so its code is not run")] * 3


# --- the choice


def test_the_choice_is_uniform_and_depends_only_on_its_seed(honest):
    runs = read_results(honest)
    assert RerunOptions(3, False, 5).choose(runs) == RerunOptions(3, False, 5).choose(runs)
    counts = Counter(str((r.task, r.seed)) for n in range(600) for r in RerunOptions(2, False, n).choose(runs))
    assert len(counts) == 10 and min(counts.values()) > 80 and sum(counts.values()) == 1200
    assert len(RerunOptions(100, False, 0).choose(runs)) == 10
    assert len(RerunOptions(0, True, 0).choose(runs)) == 2, "one per task"
    assert RerunOptions(1, True, 0).test_seed != RerunOptions(1, True, 1).test_seed != SUITE.test_seed


@pytest.mark.parametrize(("runs", "chosen"), [(10, 3), (25, 5), (5, 5), (2, 1)])
def test_miss_chance_is_hypergeometric(runs, chosen):
    edited = -(-runs // 5)
    percent = int(re.search(r"(\d+)% of such", rerun.describe_miss_chance(runs, chosen, 0))[1])
    assert percent / 100 == pytest.approx(hypergeom.pmf(0, runs, edited, chosen), abs=0.0051)


# --- the statistical tests


SYNTHETIC = synthetic_suite(seeds=[0, 1, 2, 3, 4])


def runs_around(rng: np.random.Generator, count: int, mean: float, spread: float):
    """Runs with normally distributed exact match past L, in hundredths."""
    values = np.clip(rng.normal(mean, spread, count), 0, 1).round(2)
    return [result(SYNTHETIC, seed=seed, exact=(1, 1, v, v)) for seed, v in enumerate(values)]


def test_honest_runs_of_another_machine_are_seldom_significant():
    rng, alarms, trials = np.random.default_rng(1), 0, 400
    for _ in range(trials):
        *seeds, again = runs_around(rng, 6, 0.5, 0.1)
        alarms += bool(agreement.significant(agreement.compare_by_seeds(seeds[0], again, seeds, fresh=False)))
    assert alarms <= 0.02 * trials


def test_large_edits_are_significant():
    rng = np.random.default_rng(2)
    for _ in range(100):
        *seeds, again = runs_around(rng, 6, 0.2, 0.02)
        edited = [r.model_copy(update={"scores": full(SYNTHETIC, {"nope": (1, 1, 0.9, 0.9)})[3].scores}) for r in seeds]
        (difference,) = agreement.significant(agreement.compare_by_seeds(edited[0], again, edited, fresh=False))
        assert "l > L: 0.900 submitted" in difference


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
