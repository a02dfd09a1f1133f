"""``lprime verify``: runs of another suite, missing or added runs, impossible numbers."""

import pytest
from submissions import (
    PERFECT,
    edit_each,
    edit_runs,
    fault_of,
    findings_of,
    first_wrong,
    reseal,
)

from leaderboard.submission.verify import verify_submission


def test_results_of_another_suite_version(folder):
    reseal(folder, lambda content: content["suite"].update(version=2, fingerprint="0123456789abcdef"))
    assert "submission.json has tiny 2 0123456789abcdef; expected tiny 1 " in fault_of(folder, "suite")
    edit_each(folder, lambda run: run.update(suite_version=2, fingerprint="0123456789abcdef"))
    assert "and 3 more" in fault_of(folder, "suite"), "all agree with each other, and with the submission"
    assert findings_of(folder)["scores"].status == "not run"


def test_one_run_of_another_suite_version(folder):
    edit_runs(folder, lambda runs: runs[1].update(fingerprint="0123456789abcdef"))
    assert fault_of(folder, "suite").startswith("copying seed 1 has tiny 1 0123456789abcdef")


def test_a_suite_that_is_not_shipped(folder):
    findings = {f.check: f for f in verify_submission(folder).findings}
    assert findings["suite"].status == "failed" and findings["suite"].found.startswith("unknown suite 'tiny'")


def test_runs_of_other_encodings_or_settings(folder):
    edit_runs(folder, lambda runs: runs[4]["encoding"].update(settings={"rate": 2.0}))
    assert fault_of(folder, "encoding") == "parity seed 1 describes its encoding differently from copying seed 0"
    edit_each(folder, lambda run: run["encoding"].update(name="rope", settings={"rate": 1.0}))
    assert fault_of(folder, "encoding").startswith("copying seed 0 is of 'rope'")


def choose_seeds(runs: list[dict]) -> None:
    for run in runs:
        run["seed"] = {2: 7}.get(run["seed"], run["seed"])
    runs[-1]["seed"] = 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda runs: [run for run in runs if run["seed"] != 1], "copying seed 1 is missing; parity seed 1 is missing"),
        (lambda runs: runs[:-1], "parity seed 2 is missing"),
        (lambda runs: [*runs, runs[-1]], "parity seed 2 occurs 2 times"),
        (lambda runs: [*runs[:-1], runs[-1] | {"task": "sorting", "seed": 0}], "'sorting' is not a task of the suite"),
        (choose_seeds, "parity seed 2 is missing; seed 7 is not a seed of the suite (only on copying)"),
    ],
)
def test_missing_repeated_and_added_runs(folder, change, message):
    edit_runs(folder, change)
    assert message in fault_of(folder, "complete")


def test_unordered_lines(folder):
    edit_runs(folder, lambda runs: runs[::-1])
    assert fault_of(folder, "results") == "lines are not ordered by task and seed"


def test_training_at_longer_lengths_requires_that_ranking_class(folder):
    edit_each(folder, lambda run: run.update(longest_seen=8))
    assert "trained at length 8, past L = 4, but is ranked standard" in fault_of(folder, "ranking")
    reseal(folder, lambda content: content.update(ranking="longer"))
    edit_each(folder, lambda run: run["encoding"].update(ranking="longer"))
    found = fault_of(folder, "ranking")
    assert "the submission has longest training lengths {'copying': 4, 'parity': 4}, its runs {'copying': 8" in found
    training = {"longest": {"copying": 8, "parity": 8}, "extra_stage": True, "task_aware": False}
    reseal(folder, lambda content: content.update(training=training))
    assert findings_of(folder)["ranking"].status == "passed"


def test_ranking_classes_must_agree(folder):
    reseal(folder, lambda content: content["training"].update(task_aware=True))
    assert "task_aware=True, but is ranked standard" in fault_of(folder, "ranking")
    edit_runs(folder, lambda runs: runs[0]["encoding"].update(ranking="task-aware"))
    assert "copying seed 0 is ranked 'task-aware', the submission standard" in fault_of(folder, "ranking")
    edit_runs(folder, lambda runs: runs[0].update(longest_seen=5))
    assert "copying seed 0 trained up to length 5; expected L = 4, or 8 after a stage" in fault_of(folder, "ranking")


# --- numbers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run.update(data_hash="0" * 64), "data_hash"),
        (lambda run: run.update(variant="another"), "variant"),
        (lambda run: run.update(train_length=3), "train_length"),
        (lambda run: run["scores"].pop(), "lengths, examples or answer tokens"),
        (lambda run: run["scores"][0].update(count=17), "lengths, examples or answer tokens"),
        (lambda run: run["scores"][0].update(tokens=1), "lengths, examples or answer tokens"),
        (lambda run: run["scores"][-1].update(chance=0.4), "chance"),
        (lambda run: run["scores"][-1].update(token_chance=0.4), "token_chance"),
        (lambda run: run["scores"][0].update(token_chance=None), "token_chance"),
    ],
)
def test_other_data(folder, change, message):
    edit_runs(folder, lambda runs: change(runs[-1]))
    assert f"parity seed 2: {message} of other data" in fault_of(folder, "data")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"exact": 0.7} | first_wrong(5), "exact match 0.7 is not a whole number of 16 examples"),
        ({"exact": 0.0, "token": 0.5001} | first_wrong(16), "token accuracy 0.5001 is not a whole number of 144 tokens"),
        ({"exact": 1.0} | first_wrong(), "16 correct examples have 144 to 144 correct tokens"),
        ({"exact": 0.5, "token": 1.0} | first_wrong(8), "8 correct examples have 72 to 136 correct tokens, not 144"),
        # 8 of 9 tokens are right before a first wrong token in tenth 9, and 4 before one in tenth 5
        ({"exact": 0.0, "token": 83 / 144} | first_wrong(*[0] * 4, 11, 0, 0, 0, 5), "have 84 to 128 correct tokens, not 83"),
        ({"exact": 0.0} | first_wrong(*[0] * 9, 16), "first wrong tokens in tenth 10, where no answer has a token"),
        ({"first_wrong": []}, "the places of first wrong tokens are missing"),
        (
            {"exact": 0.0, "token": 0.0, "nll": 0.69} | first_wrong(16),
            "token accuracy 0 has 0.693 to inf nats per token, not 0.69",
        ),
        ({"exact": 1.0, "token": 1.0, "nll": 2.5} | first_wrong(), "token accuracy 1 has 0 to 2.48 nats per token, not 2.5"),
        (
            {"exact": 1.0, "token": 1.0, "nll": None} | first_wrong(),
            "every token is correct, but the log-likelihood is missing",
        ),
    ],
)
def test_impossible_scores(folder, change, message):
    edit_runs(folder, lambda runs: runs[0]["scores"][3].update(change))
    found = fault_of(folder, "scores")
    assert "copying seed 0, length 8: " in found and message in found


def make_perfect(run: dict) -> None:
    for score in run["scores"]:
        score.update(PERFECT)


def test_perfect_scores_with_a_high_loss(folder):
    edit_each(folder, make_perfect)
    assert "copying seed 0: exact match is 100% at l ≤ L, but the loss never fell below" in fault_of(folder, "training")


def test_scores_of_a_diverged_run(folder):
    def diverged(runs: list[dict]) -> None:
        runs[0].update(status="diverged", steps=12, loss=runs[0]["loss"][:6])
        make_perfect(runs[0])

    edit_runs(folder, diverged)
    assert "the run diverged, but its scores are not zero" in fault_of(folder, "scores")
    assert findings_of(folder)["training"].status == "passed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run.update(steps=39), "done after 39 steps; the recipe has 40"),
        (lambda run: run.update(steps=400), "done after 400 steps; the recipe has 40"),
        (lambda run: run.update(status="diverged"), "diverged after 40 steps"),
        (lambda run: run["loss"].pop(), "losses are logged at 19 steps; expected every 2 steps, and the last"),
        (lambda run: run["loss"].insert(0, [1, 2.0]), "losses are logged at 21 steps"),
        (lambda run: run["loss"].__setitem__(3, [8, -0.1]), "a loss is negative, or more than 1000"),
        (lambda run: run["loss"].__setitem__(3, [8, 1e9]), "a loss is negative, or more than 1000"),
        (lambda run: run["loss"].__setitem__(0, [2, 0.01]), "a first loss of 0.01 is too small"),
    ],
)
def test_implausible_training(folder, change, message):
    edit_runs(folder, lambda runs: change(runs[0]) and None)
    assert f"copying seed 0: {message}" in fault_of(folder, "training")


def test_an_encoding_has_at_most_as_many_parameters_as_the_model(folder):
    def enlarge(run: dict) -> None:
        bare = run["parameters"]["model"] - run["parameters"]["encoding"]
        run["parameters"] = {"model": 2 * bare + 1, "encoding": bare + 1}

    edit_each(folder, enlarge)
    assert fault_of(folder, "parameters").startswith(
        "copying seed 0: 2,529 parameters of the encoding, more than the model's 2,528"
    )


def test_parameters_must_add_up(folder):
    edit_runs(folder, lambda runs: runs[0]["parameters"].update(encoding=10**6))
    found = fault_of(folder, "parameters")
    assert "copying seed 0: the model has" in found and "copying: seeds have models of different sizes" in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step_ms": -1.0}, "a time is negative or zero"),
        ({"total_s": 0.0}, "a time is negative or zero"),
        ({"step_ms": 1e-6}, "1e-06 ms per step is faster than any machine"),
        ({"train_s": 1e6}, "1000000.0 s of training and"),
        ({"step_ms": 1e6}, "40 steps of 1000000.0 ms in"),
        ({"total_s": 1e6}, "1000000.0 s of work between"),
        ({"cpu_share": 7.0}, "a share of 7.0 of a core"),
    ],
)
def test_impossible_times(folder, change, message):
    edit_runs(folder, lambda runs: runs[0]["timings"].update(change))
    assert f"copying seed 0: {message}" in fault_of(folder, "timings")


@pytest.mark.parametrize(("trained_as", "status"), [("", "failed"), ("rope", "passed")])
def test_a_shared_training_took_place_in_another_run(folder, trained_as, status):
    def share(runs):
        for run in runs:
            run["trained_as"] = trained_as
            run["timings"]["train_s"] = 2 * run["timings"]["total_s"]

    edit_runs(folder, share)
    assert findings_of(folder)["timings"].status == status


def test_dates_must_be_in_order(folder):
    edit_runs(folder, lambda runs: runs[0].update(started="2026-01-02T00:00:00+00:00", finished="2026-01-01T00:00:00+00:00"))
    assert "copying seed 0: finished 2026-01-01T00:00:00+00:00, before it started" in fault_of(folder, "timings")
    reseal(folder, lambda content: content.update(made="2026-01-01T00:00:00+00:00"))
    assert "copying seed 1: finished after the submission was written" in fault_of(folder, "timings")
