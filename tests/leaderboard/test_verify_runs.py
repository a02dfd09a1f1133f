"""``lprime verify``: runs of another suite, runs left out, numbers that cannot be, runs that were copied."""

from pathlib import Path

import pytest
from submissions import NAME, edit_each, edit_runs, reseal, results, told, verified

from leaderboard.verify import verify


def test_results_of_another_suite_version_are_told(folder):
    def older(content: dict) -> None:
        content["suite"].update(version=2, fingerprint="0123456789abcdef")

    reseal(folder, older)
    assert "submission.json says tiny 2 0123456789abcdef; here it is tiny 1 " in told(folder, "suite")
    edit_each(folder, lambda run: run.update(suite_version=2, fingerprint="0123456789abcdef"))
    assert "and 3 more" in told(folder, "suite"), "all agree with each other, and with the submission"
    assert verified(folder)["scores"].status == "not run"


def test_one_run_of_another_version_is_told(folder):
    edit_runs(folder, lambda runs: runs[1].update(fingerprint="0123456789abcdef"))
    assert told(folder, "suite").startswith("copying seed 1 says tiny 1 0123456789abcdef")


def test_a_suite_that_is_not_shipped_is_told(folder):
    found = {f.check: f for f in verify(folder).findings}
    assert found["suite"].status == "failed" and found["suite"].found.startswith("unknown suite 'tiny'")


def test_the_encoding_is_one(folder):
    edit_runs(folder, lambda runs: runs[4]["encoding"].update(settings={"rate": 2.0}))
    assert told(folder, "encoding") == "parity seed 1 says other things of its encoding than copying seed 0"
    edit_each(folder, lambda run: run["encoding"].update(name="rope", settings={"rate": 1.0}))
    assert told(folder, "encoding").startswith("copying seed 0 is of 'rope'")


def test_a_bad_seed_left_out_is_told(folder):
    edit_runs(folder, lambda runs: [run for run in runs if run["seed"] != 1])
    assert told(folder, "complete") == "copying seed 1 is missing; parity seed 1 is missing"


def test_a_bad_run_left_out_is_told(folder):
    edit_runs(folder, lambda runs: runs[:-1])
    assert told(folder, "complete") == "parity seed 2 is missing"


def test_seeds_of_ones_own_choice_are_told(folder):
    def chosen(runs: list[dict]) -> None:
        for run in runs:
            run["seed"] = {2: 7}.get(run["seed"], run["seed"])
        runs[-1]["seed"] = 8

    edit_runs(folder, chosen)
    found = told(folder, "complete")
    assert "copying seed 2 is missing; parity seed 2 is missing; seed 7 is none of the suite's, on copying alone" in found


def test_a_task_or_a_run_more_is_told(folder):
    edit_runs(folder, lambda runs: [*runs, runs[-1]])
    assert told(folder, "complete") == "parity seed 2 stands 2 times"
    edit_runs(folder, lambda runs: [*runs[:-1], runs[-1] | {"task": "sorting", "seed": 0}])
    assert told(folder, "complete") == "'sorting' is no task of the suite"


def test_lines_stand_in_order(folder):
    edit_runs(folder, lambda runs: runs[::-1])
    assert told(folder, "results") == "lines do not stand by task and seed"


def test_who_saw_longer_lengths_is_ranked_so(folder):
    def longer(run: dict) -> None:
        run["longest_seen"] = 8

    edit_each(folder, longer)
    assert "trained at length 8, past L = 4, but is ranked standard" in told(folder, "ranking")
    reseal(folder, lambda content: content.update(ranking="longer"))
    edit_each(folder, lambda run: run["encoding"].update(ranking="longer"))
    assert "the submission says that it met {'copying': 4, 'parity': 4}" in told(folder, "ranking")
    training = {"longest": {"copying": 8, "parity": 8}, "extra_stage": True, "task_aware": False}
    reseal(folder, lambda content: content.update(training=training))
    assert verified(folder)["ranking"].status == "passed"


def test_one_ranking_is_said_throughout(folder):
    reseal(folder, lambda content: content["training"].update(task_aware=True))
    assert "task_aware=True, and is ranked standard" in told(folder, "ranking")
    edit_runs(folder, lambda runs: runs[0]["encoding"].update(ranking="task-aware"))
    assert "copying seed 0 is ranked 'task-aware', the submission standard" in told(folder, "ranking")
    edit_runs(folder, lambda runs: runs[0].update(longest_seen=5))
    assert "copying seed 0 saw length 5; expected L = 4, or 8 after a stage" in told(folder, "ranking")


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
    ],
)
def test_data_is_the_suites_own(folder, change, message):
    edit_runs(folder, lambda runs: change(runs[-1]))
    assert f"parity seed 2: {message} of other data" in told(folder, "data")


def test_shares_are_of_whole_examples_and_tokens(folder):
    edit_runs(folder, lambda runs: runs[0]["scores"][3].update(exact=0.7))
    assert "copying seed 0, length 8: exact match 0.7 is no whole number of 16 examples" in told(folder, "scores")
    edit_runs(folder, lambda runs: runs[0]["scores"][3].update(exact=0.0, token=0.5001))
    assert "token accuracy 0.5001 is no whole number of 144 tokens" in told(folder, "scores")


def test_right_examples_have_right_tokens(folder):
    edit_runs(folder, lambda runs: runs[0]["scores"][3].update(exact=1.0))
    assert "16 right examples have 144 to 144 right tokens" in told(folder, "scores")
    edit_runs(folder, lambda runs: runs[0]["scores"][3].update(exact=0.5, token=1.0))
    assert "8 right examples have 72 to 136 right tokens, not 144" in told(folder, "scores")


def perfect(run: dict) -> None:
    for score in run["scores"]:
        score.update(exact=1.0, token=1.0)


def test_scores_without_learning_are_told(folder):
    edit_each(folder, perfect)
    assert "copying seed 0: right in 100% at l ≤ L, but its loss never fell under" in told(folder, "training")


def test_a_diverged_run_has_no_scores(folder):
    edit_runs(folder, lambda runs: runs[0].update(status="diverged", steps=12, loss=runs[0]["loss"][:6]) or perfect(runs[0]))
    assert "the run diverged, but has scores" in told(folder, "scores")
    assert verified(folder)["training"].status == "passed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run.update(steps=39), "done after 39 steps; the recipe has 40"),
        (lambda run: run.update(steps=400), "done after 400 steps; the recipe has 40"),
        (lambda run: run.update(status="diverged"), "diverged after 40 steps"),
        (lambda run: run["loss"].pop(), "losses stand at 19 steps; expected every 2, and the last"),
        (lambda run: run["loss"].insert(0, [1, 2.0]), "losses stand at 21 steps"),
        (lambda run: run["loss"].__setitem__(3, [8, -0.1]), "a loss is negative, or beyond all measure"),
        (lambda run: run["loss"].__setitem__(3, [8, 1e9]), "a loss is negative, or beyond all measure"),
        (lambda run: run["loss"].__setitem__(0, [2, 0.01]), "a first loss of 0.01 is less than the very first step alone"),
    ],
)
def test_training_took_the_course_that_it_takes(folder, change, message):
    edit_runs(folder, lambda runs: change(runs[0]) and None)
    assert f"copying seed 0: {message}" in told(folder, "training")


def test_parameters_add_up(folder):
    edit_runs(folder, lambda runs: runs[0]["parameters"].update(encoding=10**6))
    found = told(folder, "parameters")
    assert "copying seed 0: a model of" in found and "the seeds of copying have models of different sizes" in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step_ms": -1.0}, "a time is negative"),
        ({"total_s": 0.0}, "a time is negative, or nothing"),
        ({"step_ms": 1e-6}, "1e-06 ms a step is faster than any machine"),
        ({"train_s": 1e6}, "in"),
        ({"step_ms": 1e6}, "40 steps of 1000000.0 ms in"),
        ({"total_s": 1e6}, "1000000.0 s of work between"),
        ({"cpu_share": 7.0}, "a share of 7.0 of a core"),
    ],
)
def test_times_are_possible(folder, change, message):
    edit_runs(folder, lambda runs: runs[0]["timings"].update(change))
    assert "copying seed 0: " in told(folder, "timings") and message in told(folder, "timings")


def test_dates_stand_in_order(folder):
    edit_runs(folder, lambda runs: runs[0].update(started="2026-01-02T00:00:00+00:00", finished="2026-01-01T00:00:00+00:00"))
    assert "copying seed 0: finished 2026-01-01T00:00:00+00:00, before it started" in told(folder, "timings")
    reseal(folder, lambda content: content.update(made="2026-01-01T00:00:00+00:00"))
    assert "finished after the submission was made: copying seed 1" in told(folder, "timings")


# --- copies


def again_as(seed: int, **changes: object):
    def copy(runs: list[dict]) -> list[dict]:
        return [run if run["seed"] != seed else next(r for r in runs if (r["task"], r["seed"]) == (run["task"], 0)) | {
            "seed": seed, "started": run["started"], "finished": run["finished"], "timings": run["timings"], **changes
        } for run in runs]  # fmt: skip

    return copy


def test_a_good_seed_under_two_names_is_told(folder):
    edit_runs(folder, again_as(1))
    assert told(folder, "copies") == "copying seed 1 is copying seed 0 once more; parity seed 1 is parity seed 0 once more"


@pytest.mark.parametrize(
    "disguise",
    [
        lambda step, loss: loss * 1.01,
        lambda step, loss: loss + 0.01,
        lambda step, loss: loss if step < 10 else loss * (1 + step / 1000),
    ],
    ids=["scaled", "moved", "changed from a fifth on"],
)
def test_a_disguised_seed_is_told(folder, disguise):
    edit_runs(folder, again_as(1))

    def disguised(run: dict) -> None:
        if run["seed"] == 1:
            run["loss"] = [[step, disguise(step, loss)] for step, loss in run["loss"]]

    edit_each(folder, disguised)
    assert "copying seed 1 is copying seed 0 once more" in told(folder, "copies")


def published(folder: Path, name: str, board: Path) -> Path:
    """The submission's runs, on the board under another name."""
    place = board / "results/tiny"
    place.mkdir(parents=True)
    runs = [r.model_copy(update={"encoding": r.encoding.model_copy(update={"name": name})}) for r in results(folder)]
    (place / f"{name}.jsonl").write_text("".join(r.model_dump_json() + "\n" for r in runs))
    return board


def test_runs_of_the_board_are_not_submitted_again(folder, tmp_path):
    board = published(folder, "theirs", tmp_path / "board")
    assert "copying seed 0 is copying seed 0 of theirs, as published" in told(folder, "copies", published=board)
    assert verified(folder)["copies"].status == "passed"


def test_who_trains_as_another_but_scores_otherwise_is_no_copy(folder, tmp_path):
    board = published(folder, "theirs", tmp_path / "board")
    edit_each(folder, lambda run: run["scores"][-1].update(exact=0.0, token=1 / run["scores"][-1]["tokens"]))
    found = verified(folder, published=board)["copies"]
    assert (found.status, found.found) == ("passed", "none, nor of 6 runs on the board; same losses, other scores than theirs")


def test_ones_own_published_runs_are_no_copies(folder, tmp_path):
    board = published(folder, NAME, tmp_path / "board")
    assert verified(folder, published=board)["copies"].status == "passed"
