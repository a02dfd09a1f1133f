"""Calibration of ``python -m bench.gpu``: which candidates are tried, when a task is learned, and what suite comes of it."""

import dataclasses
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from bench.gpu.calibration import RunsFailed, calibrated, judge, next_round, run_trials, suite_of, trial_key
from bench.gpu.candidates import STANDARD, Candidates
from bench.gpu.measurements import Trial
from bench.result import LengthScore
from bench.runs.run import Run
from bench.suites.suite import load_suite
from leaderboard.data.store import read_runs
from leaderboard.stats.scores import cell_scores
from tasks import InputError

PARITY = Candidates("parity", "sparse", (40, 30), (4, 8), past=16)
SORTING = Candidates("sorting", "unique", (10,), (4,), past=4)
BASE = load_suite("standard")


def trial_of(spec, met=False, mean=0.0, longest=0) -> Trial:
    """Two encodings, of which one has learned the task."""
    return Trial(
        key=trial_key(BASE, spec), task=spec.task, train_length=spec.train_length, steps=spec.recipe["steps"], seeds=2,
        longest=longest, learned={"nope": mean, "rope": 1.0}, floor=0, ceiling=0, met=met,
    )  # fmt: skip


def trials_of(*found: Trial) -> dict[str, Trial]:
    return {trial.key: trial for trial in found}


def test_candidates_are_tried_in_the_order_of_the_rules():
    assert {c.task: (c.train_lengths, c.steps) for c in STANDARD} == {
        "copying": ((32, 24), (800, 1600)),
        "addition": ((12, 8), (1500, 3000)),
        "parity": ((40, 30), (600, 1200)),
        "key_retrieval": ((32, 24), (600, 1200)),
        "sorting": ((32, 24), (800, 1600)),
    }
    assert [(spec.train_length, spec.recipe["steps"]) for spec in PARITY.specs()] == [(40, 4), (40, 8), (30, 4), (30, 8)]


def test_the_first_candidate_that_meets_the_criteria_is_taken():
    specs, (sorting,), both = PARITY.specs(), SORTING.specs(), [PARITY, SORTING]
    assert next_round(BASE, both, {}) == [specs[0], sorting]
    tried = trials_of(trial_of(specs[0], mean=1.0), trial_of(specs[1]))
    assert next_round(BASE, both, tried) == [specs[2], sorting]
    tried |= trials_of(trial_of(specs[2], met=True, mean=0.9, longest=120))
    assert next_round(BASE, both, tried) == [sorting]
    with pytest.raises(InputError, match="waits for the calibration of sorting"):
        calibrated(BASE, both, tried)
    suite = calibrated(BASE, both, tried | trials_of(trial_of(sorting, met=True, longest=40)))
    assert (suite.name, suite.version, suite.longest("parity")) == ("standard", BASE.version + 1, 120)
    assert suite.spec("parity").train_length == 30, "though more encodings have learned the first, which is not graded"
    assert suite.recipe_for("parity").steps == 4 and len(suite.test_lengths("parity")) == 4 + 8
    assert "Calibrated in CALIBRATION.md." in suite.about


def test_trials_of_another_version_of_a_suite_or_candidate_are_not_taken():
    specs = PARITY.specs()
    tried = trials_of(trial_of(specs[0], met=True, longest=120))
    assert next_round(BASE, [PARITY], tried) == []
    shorter = dataclasses.replace(PARITY, past=8)
    assert next_round(BASE, [shorter], tried) == shorter.specs()[:1]
    assert next_round(BASE.model_copy(update={"test_examples": 7}), [PARITY], tried) == specs[:1]


def test_a_task_that_meets_the_criteria_nowhere_gets_the_candidate_that_most_have_learned():
    means = (0.1, 0.95, 0.9, 1.0)
    tried = trials_of(*(trial_of(spec, mean=mean) for spec, mean in zip(PARITY.specs(), means, strict=True)))
    suite = calibrated(BASE, [PARITY], tried)
    assert suite.recipe_for("parity").steps == 8 and suite.longest("parity") == 640, "of two, the longer L"
    assert "no candidate of parity met the criteria" in suite.about


def test_candidates_are_valid_suites_with_test_lengths_evenly_spaced_in_log_l():
    for task in STANDARD:
        for spec in task.specs():
            suite = suite_of(BASE, [spec])
            past = [n for n in suite.test_lengths(spec.task) if n > spec.train_length]
            assert past[-1] == task.past * spec.train_length and len(past) >= 14
            steps = np.diff(np.log([spec.train_length, *past]))
            assert np.allclose(steps, np.log(task.past) / len(past), atol=1.5 / spec.train_length)


def test_published_runs_are_judged_as_the_board_scores_them():
    """Suite ``small`` was calibrated by the same criteria, with other seeds. Addition has six test lengths past L only."""
    suite, folder = load_suite("small"), Path(__file__).parents[2] / "leaderboard" / "published" / "results" / "small"
    found = [r for r in read_runs(folder) if r.encoding.name in suite.encodings and r.seed < 2]
    for spec in suite.tasks:
        runs, length = [r for r in found if r.task == spec.task], spec.train_length
        spec = spec.model_copy(update={"recipe": {"steps": runs[0].steps}})
        scores = {name: [r.scores for r in runs if r.encoding.name == name] for name in suite.encodings}
        trial = judge(spec, "", scores)
        for name, mean in trial.learned.items():
            assert mean == pytest.approx(np.mean([c.exact for run in scores[name] for c in run if c.length <= length]))
        if spec.task == "addition":
            assert not trial.met and trial.longest == 0
            continue
        assert trial.met and trial.longest == suite.longest(spec.task) and trial.seeds == 2
        past = [[cell for cell in r.scores if cell.length > length] for r in runs]
        fields = ("exact", "token", "token_chance")
        exact, token, guessed = (np.array([[getattr(c, field) for c in row] for row in past]) for field in fields)
        expected = cell_scores(exact, token, np.array([c.chance for c in past[0]]), guessed)
        assert (trial.floor, trial.ceiling) == pytest.approx(((expected < 0.02).mean(), (expected > 0.98).mean()))


def scored(length: int, value: float) -> LengthScore:
    """A cell whose score is ``value``."""
    cell = {"chance": 0.0, "token_chance": 0.0, "count": 100, "tokens": 100}
    return LengthScore(length=length, exact=value, token=value, **cell)


@pytest.mark.parametrize(
    ("values", "longest"),
    [
        ([0.5] * 10, 20),
        ([0.5] * 6 + [0.0] * 4, 19),  # a third of nine
        ([0.5] * 5 + [0.0] * 5, 0),  # three eighths of eight, the fewest
        ([1.0] * 3 + [0.5] * 7, 20),
        ([1.0] * 10, 0),
        ([0.5] * 7, 0),
    ],
)
def test_the_greatest_length_at_which_a_task_is_graded(values, longest):
    spec = PARITY.specs()[0].model_copy(update={"train_length": 10})
    trial = judge(spec, "", {"nope": [[scored(10, 1.0), *(scored(11 + n, value) for n, value in enumerate(values))]]})
    assert (trial.longest, trial.met) == (longest, longest > 0)


def test_trials_stop_after_the_first_seed_where_the_second_cannot_help_and_failed_runs_score_zero(tmp_path, monkeypatch):
    suite = BASE.model_copy(update={"encodings": ["nope", "rope", "alibi"], "test_examples": 4})
    specs, calls = [PARITY.specs()[0], *SORTING.specs()], []
    means = {"nope": 0.9, "rope": 0.89, "alibi": 0.91}
    failing: set[str] = set()

    def run(command, seconds):
        assert 0 < seconds < 1000 and "--retry-failed" in command
        options = dict(word.removeprefix("--").split("=") for word in command if word.count("=") == 1 and "task" not in word)
        calls.append((int(options["seed"]), [word.removeprefix("--task=") for word in command if "--task" in word]))
        if failing:
            raise RunsFailed("some")

    def result(self, out):
        lengths = self.suite.test_lengths(self.task)
        mean = means[self.encoding] if self.task == "parity" else 1.0
        scores = [scored(n, mean if n <= self.suite.spec(self.task).train_length else 0.5) for n in lengths]
        return None if self.encoding in failing else SimpleNamespace(scores=scores)

    monkeypatch.setattr("bench.gpu.calibration.run_to_end", run)
    monkeypatch.setattr(Run, "result", result)
    monkeypatch.setattr(Run, "failure", lambda self, out: "out of memory" if self.encoding in failing else None)

    def trials() -> list[Trial]:
        calls.clear()
        return run_trials(suite, specs, 1, torch.device("cpu"), time.monotonic() + 900, tmp_path)

    parity, sorting = trials()
    assert (parity.seeds, parity.met, sorting.met) == (2, False, True)
    assert calls == [(100, ["parity", "sorting"]), (101, ["parity", "sorting"])], "two of three can still reach .95"
    means["nope"] = 0.89
    parity, sorting = trials()
    assert (parity.seeds, parity.met, sorting.seeds) == (1, False, 2)
    assert calls == [(100, ["parity", "sorting"]), (101, ["sorting"])]
    failing.add("rope")
    means.update(nope=0.95, alibi=0.95)
    parity, _ = trials()
    assert parity.met and parity.learned["rope"] == 0 and parity.floor == pytest.approx(1 / 3), "all but one have learned it"
    assert len(calls) == 4, "failed runs are tried once more"
    monkeypatch.setattr(Run, "failure", lambda self, out: None)
    with pytest.raises(InputError, match="is not finished"):
        trials()
