"""``lprime verify``, the part that runs what was submitted: honest runs agree, edited ones do not, tests keep their word."""

import hashlib
import re
from collections import Counter
from functools import partial
from math import comb
from pathlib import Path

import numpy as np
import pytest
from submissions import NAME, edit_each, edit_report, made, made_apart, reseal, results, suite
from synthetic_results import full, result
from synthetic_results import suite as made_up

from bench import encodings, plugins
from bench.check import check as run_checks
from bench.check.report import Finding
from bench.check.subject import Fault
from bench.runs import Run
from bench.work import execute
from leaderboard.submission import SUBMISSION, Submission
from leaderboard.verify import Again, agreement, verify
from leaderboard.verify import again as module
from leaderboard.verify.reading import Contents
from leaderboard.verify.subject import Subject

SUITE = suite(seeds=[0, 1, 2, 3, 4])


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> Path:
    """In place of the one that other tests share: five seeds."""
    return made_apart(tmp_path_factory.mktemp("honest"), SUITE)


@pytest.fixture
def here(monkeypatch, tmp_path):
    """Runs made in this process rather than in others, which take ten seconds to begin; and one check in place of all."""
    monkeypatch.setattr(plugins, "loaded", plugins.Loaded())
    monkeypatch.setattr(module, "run_checks", partial(run_checks, only=["interface"]))

    def train(subject, of, chosen, again):
        monkeypatch.setattr(plugins, "loaded", plugins.Loaded())
        with module.written(subject) as (reference, _, _):
            name = encodings.get(reference).info.name
            return [execute(Run(of, r.task, name, r.seed), tmp_path / f"again-{of.test_seed}", "cpu") for r in chosen]

    monkeypatch.setattr(module, "train", train)


def found(folder: Path, of=SUITE, **changes) -> dict[str, Finding]:
    again = Again(**{"rerun": 2, "fresh": True, "seed": 7} | changes)
    return {f.check: f for f in verify(folder, of, again=again).findings}


def better(run: dict) -> None:
    """Every score as good as a perfect one, with a loss that fell: nothing static is left to tell."""
    for score in run["scores"]:
        score.update(exact=1.0, token=1.0)
    run["loss"] = [[step, loss / (1 + step * (1 + run["seed"] / 7))] for step, loss in run["loss"]]


# --- the whole of it, in processes of its own


def test_an_honest_submission_agrees_bit_for_bit(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "run_checks", partial(run_checks, only=["interface"]))
    monkeypatch.setattr(plugins, "loaded", plugins.Loaded())
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    said = []
    report = found(folder, rerun=1, fresh=False, workers=1, say=said.append)
    assert {name: f.found for name, f in report.items() if f.status != "passed"} == {}
    assert re.fullmatch(r"(copying|parity) seed \d: 1 bit for bit; 1 of 10 runs, choice seed 7; had 2 been edited, 80% of such "
                        r"choices would miss all", report["rerun"].found)  # fmt: skip
    assert said[1].startswith("training ")
    assert not plugins.loaded.plugins, "this process has loaded nothing"


@pytest.mark.parametrize(
    ("line", "message", "limit"), [("raise OSError('no')", "OSError: no", 60), ("while True: pass", "still at it after 2 s", 2)]
)
def test_source_that_breaks_or_hangs_is_told(honest, line, message, limit):
    source = (honest / f"source/{NAME}.py").read_text().replace("class MyEncoding", f"{line}\nclass MyEncoding")
    submission = Submission.model_validate_json((honest / SUBMISSION).read_text())
    subject = Subject(NAME, Contents({f"source/{NAME}.py": source.encode()}), SUITE, found={"submission": submission})
    with pytest.raises(Fault, match=f"copying {NAME} seed 0 gave no result: .*{message}"):
        module.train(subject, SUITE, results(honest)[:1], Again(1, False, 0, 1, limit))


# --- edited so that nothing static tells


def test_an_edit_that_all_else_agrees_with_is_found(folder, here):
    edit_each(folder, better)
    report = found(folder)
    assert [name for name, f in report.items() if f.status != "passed"] == ["rerun", "fresh tests"]
    assert "differs in loss, scores (exact match 1.000 and 1.000 submitted, exact match 0." in report["rerun"].found
    assert "though device and versions are the same" in report["rerun"].found
    assert "differs in loss, though device and versions are the same" in report["fresh tests"].found


def test_an_edit_of_scores_alone_is_found_on_new_examples(folder, here):
    def past_l(run: dict) -> None:
        for score in run["scores"]:
            if score["length"] > run["train_length"]:
                score.update(exact=1.0, token=1.0)

    edit_each(folder, past_l)
    report = found(folder)
    assert [name for name, f in report.items() if f.status != "passed"] == ["rerun", "fresh tests"]
    assert "differs in scores (" in report["rerun"].found
    assert re.search(r"length 8: 1\.000 submitted, 0\.\d+ found", report["fresh tests"].found)


def test_an_honest_submission_passes_here(folder, here):
    report = found(folder)
    assert {name: f.found for name, f in report.items() if f.status != "passed"} == {}
    assert "2 bit for bit" in report["rerun"].found
    assert "no difference told by 8 tests; test seed " in report["fresh tests"].found


def elsewhere(run: dict) -> None:
    run["device"] = "cpu (another one)"


def test_another_machine_is_compared_by_the_spread_of_seeds(folder, here):
    edit_each(folder, elsewhere)
    # Another machine rounds otherwise: the same seed takes another course.
    edit_each(folder, lambda run: run.update(loss=[[step, loss * (1 + 1e-3 * step)] for step, loss in run["loss"]]))
    report = found(folder)
    assert {name: f.found for name, f in report.items() if f.status != "passed"} == {}
    assert "0 bit for bit, 2 by the test: no difference told" in report["rerun"].found
    edit_each(folder, better)
    edit_each(folder, elsewhere)
    report = found(folder)
    assert [name for name, f in report.items() if f.status != "passed"] == ["rerun", "fresh tests"]
    assert re.search(r"copying seed \d, l > L: 1\.000 submitted, 0\.000 found \(p = ", report["rerun"].found)


def test_a_single_seed_on_another_machine_tells_nothing(tmp_path, here):
    of = suite(seeds=[0])
    folder = made(tmp_path, of)
    edit_each(folder, elsewhere)
    edit_each(folder, lambda run: run.update(loss=[[step, loss * 1.001] for step, loss in run["loss"]]))
    report = found(folder, of)
    assert report["rerun"].status == "failed"
    assert "a single seed does not tell how far apart such runs may be" in report["rerun"].found


def test_what_was_not_checked_is_checked(folder, monkeypatch, here):
    """A forged report of checks passes as data; the checks themselves do not."""
    source = (folder / f"source/{NAME}.py").read_text().replace("at.positions", "at.positions.div(at.layer - at.layer)")
    (folder / f"source/{NAME}.py").write_text(source)
    own = hashlib.sha256(source.encode()).hexdigest()
    edit_report(folder, lambda report: report.update(source_sha256=own))
    edit_each(folder, lambda run: run["encoding"].update(source_sha256=own))
    reseal(folder, lambda content: content.update(source_sha256=own))
    report = found(folder)
    assert report["check report"].status == "passed"
    assert report["check again"].status == "failed" and report["check again"].found.startswith("interface: ")
    assert report["rerun"].status == "failed"


def test_nothing_runs_where_data_did_not_pass(folder, monkeypatch):
    monkeypatch.setattr(module, "run_checks", lambda *_, **__: pytest.fail("ran"))
    monkeypatch.setattr(module, "train", lambda *_: pytest.fail("ran"))
    reseal(folder, lambda content: content.update(title="<b>"))
    report = found(folder)
    last = [report[name] for name in ("check again", "rerun", "fresh tests")]
    assert [(f.status, f.found) for f in last] == [("not run", "nothing is run before its data pass")] * 3


# --- the choice


def test_the_choice_hangs_on_its_seed_alone_and_favours_nobody(honest):
    runs = results(honest)
    assert Again(3, False, 5).choose(runs) == Again(3, False, 5).choose(runs)
    counts = Counter(str((r.task, r.seed)) for n in range(600) for r in Again(2, False, n).choose(runs))
    assert len(counts) == 10 and min(counts.values()) > 80 and sum(counts.values()) == 1200
    assert len(Again(100, False, 0).choose(runs)) == 10
    assert len(Again(0, True, 0).choose(runs)) == 2, "one a task"
    assert Again(1, True, 0).test_seed != Again(1, True, 1).test_seed != SUITE.test_seed


@pytest.mark.parametrize(("runs", "chosen"), [(10, 3), (25, 5), (5, 5), (2, 1)])
def test_odds_are_those_of_the_draw(runs, chosen):
    edited = -(-runs // 5)
    told = int(re.search(r"(\d+)% of such", module.odds(runs, chosen, 0))[1])
    rng = np.random.default_rng(0)
    missed = np.mean([rng.permutation(runs)[:chosen].min() >= edited for _ in range(20_000)])
    assert abs(told / 100 - missed) < 0.02 and comb(runs, chosen)


# --- the tests


OF = made_up(seeds=[0, 1, 2, 3, 4])


def runs_around(rng: np.random.Generator, count: int, centre: float, spread: float):
    """Runs whose exact match past L hangs on the run, in hundredths."""
    values = np.clip(rng.normal(centre, spread, count), 0, 1).round(2)
    return [result(OF, seed=seed, exact=(1, 1, v, v)) for seed, v in enumerate(values)]


def test_honest_runs_of_another_machine_are_seldom_told_apart():
    rng, alarms, trials = np.random.default_rng(1), 0, 400
    for _ in range(trials):
        *seeds, again = runs_around(rng, 6, 0.5, 0.1)
        alarms += bool(agreement.told(agreement.by_spread(seeds[0], again, seeds, fresh=False)))
    assert alarms <= 0.02 * trials


def test_a_great_edit_is_told_apart():
    rng = np.random.default_rng(2)
    told = 0
    for _ in range(100):
        *seeds, again = runs_around(rng, 6, 0.2, 0.02)
        edited = [r.model_copy(update={"scores": full(OF, {"nope": (1, 1, 0.9, 0.9)})[3].scores}) for r in seeds]
        (difference,) = agreement.told(agreement.by_spread(edited[0], again, edited, fresh=False))
        told += "l > L: 0.900 submitted" in difference
    assert told == 100


def test_new_examples_of_one_model_are_seldom_told_apart():
    rng, alarms, trials = np.random.default_rng(3), 0, 400
    for _ in range(trials):
        truth = rng.uniform(0, 1, 4)
        one, other = (result(OF, exact=tuple(rng.binomial(100, truth) / 100)) for _ in range(2))
        alarms += bool(agreement.told(agreement.by_examples(one, other)))
    assert alarms <= 0.02 * trials


def test_the_test_of_examples_is_fishers():
    """Counted out: all tables with these margins that are no more likely than the one seen."""
    (_, _, _, last) = agreement.by_examples(result(OF, exact=(1, 1, 1, 0.30)), result(OF, exact=(1, 1, 1, 0.45)))
    a, b, n = 30, 45, 100
    ways = [comb(n, k) * comb(n, a + b - k) for k in range(a + b + 1)]
    assert last.p == pytest.approx(sum(w for w in ways if w <= ways[a]) / sum(ways), rel=1e-6)


def test_machines_are_alike_by_all_that_equal_bits_hang_on():
    one = result(OF, versions={"torch": "2", "numpy": "2", "python": "3.11"})
    assert agreement.alike(one, one.model_copy(update={"versions": {"torch": "2", "numpy": "2", "python": "3.12"}}))
    for change in ({"device": "gpu"}, {"threads": 2}, {"versions": {"torch": "3", "numpy": "2"}}, {"versions": {}}):
        assert not agreement.alike(one, one.model_copy(update=change))
