"""Encodings that share a training: train once, test many, with the same results as separate trainings, bit for bit."""

import threading
import time

import pytest
import torch
from support import CHANGING, suite_dict

from bench.runs import run_training
from bench.runs.pool import LocalPool, Worker
from bench.runs.run import RESULT, WEIGHTS, Run
from bench.runs.run_lock import lock_training, read_heartbeat
from bench.runs.run_one import run_one
from bench.runs.shared_training import group_by_training, shared_trainings, trained_as, training_run
from bench.suites.suite import Suite, validated
from bench.training.train import Stopped
from tasks import InputError

STAGED = "finetuned(interpolated(rope,fixed=True))"


def run_of(encoding: str, **changes) -> Run:
    """A run of 130 steps: with one more in a stage, which is no multiple of the loss curve's interval."""
    return Run(validated(Suite, suite_dict(recipe={"steps": 130}, **changes), "suite"), "copying", encoding, 0)


def content(result) -> dict:
    return {key: value for key, value in result.model_dump().items() if key not in CHANGING}


@pytest.fixture
def trained(monkeypatch) -> list[tuple[str, int, int]]:
    """Calls of ``train``: encoding, first and last step."""
    calls, real = [], run_training.train

    def spy(model, optimizer, task, length, recipe, seed, state, after_step):
        name, first = model.encoding.info.name, state.step
        try:
            real(model, optimizer, task, length, recipe, seed, state, after_step)
        finally:
            calls.append((name, first, state.step))

    monkeypatch.setattr(run_training, "train", spy)
    return calls


@pytest.fixture(scope="module")
def separate(tmp_path_factory) -> dict[str, dict]:
    """Results of runs that trained on their own."""
    results = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bench.runs.run_training.training_run", lambda run: run)
        for name in ("rope", "yarn", "ntk", STAGED):
            results[name] = content(run_one(run_of(name), tmp_path_factory.mktemp("separate"), "cpu"))
    return results


def assert_as_separate(result, separate: dict[str, dict], trained_as: str) -> None:
    assert result.trained_as == trained_as
    assert content(result) == separate[result.encoding.name] | {"trained_as": trained_as}


# --- runs


def test_one_training_serves_all_and_results_are_those_of_separate_trainings(tmp_path, trained, separate):
    for name in ("rope", "yarn", "ntk", STAGED):
        result = run_one(run_of(name), tmp_path, "cpu", keep_weights=True)
        assert_as_separate(result, separate, "" if name == "rope" else "rope")
        assert result.weights == f"{run_of(STAGED if name == STAGED else 'rope').path}/{WEIGHTS}"
    assert trained == [("rope", 0, 130), (STAGED, 130, 131)]
    files = {p.name for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {"result.json", WEIGHTS, "README.md"}
    cards = {p.parent.parent.name: p.read_text() for p in tmp_path.rglob("README.md")}
    assert {name: f"\n# {name} on " in card for name, card in cards.items()} == {"rope": True, STAGED: True}
    assert [p.parent.parent.name for p in sorted(tmp_path.rglob(WEIGHTS))] == [STAGED, "rope"]


def test_the_order_does_not_matter(tmp_path, trained, separate):
    for name in (STAGED, "yarn", "rope"):
        result = run_one(run_of(name), tmp_path, "cpu")
        assert_as_separate(result, separate, "" if name == "rope" else "rope")
    assert trained == [("rope", 0, 130), (STAGED, 130, 131)]
    yarn, rope = (run_of(name).result(tmp_path).timings for name in ("yarn", "rope"))
    assert yarn.step_ms == rope.step_ms and yarn.train_s == rope.train_s and yarn.cpu_share == rope.cpu_share
    assert yarn.total_s < rope.total_s, "its own time"


@pytest.mark.parametrize(("name", "stop"), [("yarn", 70), (STAGED, 70), (STAGED, 130), (STAGED, 131)])
def test_an_interrupted_run_resumes_and_ends_the_same(tmp_path, trained, separate, name, stop):
    steps = []
    real = run_training.Training.after_step

    def after_step(training, state):
        steps.append(state.step)
        if state.step == stop and steps.count(stop) == 1:
            training.save()
            raise Stopped
        real(training, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_training.Training, "after_step", after_step)
        with pytest.raises(Stopped):
            run_one(run_of(name), tmp_path, "cpu")
        assert_as_separate(run_one(run_of(name), tmp_path, "cpu", keep_weights=True), separate, "rope")
    assert len(steps) == max(steps), "no step is made twice"
    assert (run_of(name).folder(tmp_path) / WEIGHTS).exists() == (name == STAGED), "the end of a stage is kept"
    assert_as_separate(run_one(run_of("rope"), tmp_path, "cpu"), separate, "")


@pytest.mark.parametrize("fault", ["truncated", "other source"])
def test_unusable_weights_are_trained_again(tmp_path, trained, separate, monkeypatch, fault):
    run_one(run_of("rope"), tmp_path, "cpu", keep_weights=True)
    weights = run_of("rope").folder(tmp_path) / WEIGHTS
    if fault == "truncated":
        weights.write_bytes(weights.read_bytes()[:-1])
    else:
        (weights.parent / RESULT).unlink()
        monkeypatch.setattr(run_training, "source_hash", lambda cls: f"changed {cls.info.name}")
    assert_as_separate(run_one(run_of("yarn"), tmp_path, "cpu"), separate, "rope")
    assert trained == [("rope", 0, 130)] * 2
    run_one(run_of("ntk"), tmp_path, "cpu")
    assert len(trained) == 2, "the second training is kept"


def test_a_result_names_no_weights_of_an_earlier_training(tmp_path, monkeypatch):
    run_one(run_of("rope"), tmp_path, "cpu", keep_weights=True)
    weights = run_of("rope").folder(tmp_path) / WEIGHTS
    before = weights.read_bytes()
    (weights.parent / RESULT).unlink()
    monkeypatch.setattr(run_training, "source_hash", lambda cls: f"changed {cls.info.name}")
    assert run_one(run_of("rope"), tmp_path, "cpu").weights and weights.read_bytes() != before


def test_weights_that_a_result_was_tested_with_are_never_replaced(tmp_path, trained, monkeypatch):
    run_one(run_of("rope"), tmp_path, "cpu", keep_weights=True)
    weights = run_of("rope").folder(tmp_path) / WEIGHTS
    before = weights.read_bytes()
    monkeypatch.setattr(torch, "__version__", "9.0.0")
    with pytest.raises(InputError, match=r"weights of a training with other code, another torch .*; use another --out"):
        run_one(run_of("yarn"), tmp_path, "cpu")
    assert weights.read_bytes() == before and len(trained) == 1


def test_a_diverged_training_is_shared_too(tmp_path, trained):
    suite = validated(Suite, suite_dict(recipe={"steps": 130, "learning_rate": 1e30}), "suite")
    results = [run_one(Run(suite, "copying", name, 0), tmp_path, "cpu") for name in (STAGED, "rope")]
    assert [r.status for r in results] == ["diverged"] * 2 and not any(s.exact or s.token for r in results for s in r.scores)
    assert results[0].steps == results[1].steps and len(trained) == 1


def test_a_run_waits_for_another_process_that_makes_its_training(tmp_path, trained, separate):
    folder, results = run_of("rope").folder(tmp_path), []
    waiting = threading.Thread(target=lambda: results.append(run_one(run_of("yarn"), tmp_path, "cpu")))
    with lock_training(folder, lambda step: None):
        waiting.start()
        while (beat := read_heartbeat(run_of("yarn").folder(tmp_path))) is None:
            time.sleep(0.05)
        assert beat.step == 0 and not trained
        stopping = iter([False, True])
        with pytest.raises(Stopped):
            run_one(run_of("ntk"), tmp_path, "cpu", should_stop=lambda: next(stopping))
    waiting.join()
    assert_as_separate(results[0], separate, "rope")


# --- the pool and its plans


def test_the_pool_does_not_make_a_training_twice_at_the_same_time(tmp_path):
    pool, queue = LocalPool(workers=2), [run_of(name) for name in ("ntk", STAGED, "nope", "rope")]
    pool.active.append(Worker(None, None, run=run_of("yarn")))
    pool.out, pool.queue = tmp_path, queue[:2]
    assert pool.next_run() is None
    pool.queue = queue
    assert pool.next_run() == run_of("nope")
    weights = run_of("rope").folder(tmp_path) / WEIGHTS
    weights.parent.mkdir(parents=True)
    weights.touch()
    assert pool.next_run() == run_of("ntk")


def test_runs_of_one_training_follow_each_other():
    runs = [run_of(name) for name in ("yarn", "nope", "rope", "ntk")]
    assert [run.encoding for run in group_by_training(runs)] == ["yarn", "rope", "ntk", "nope"]
    assert training_run(runs[0]) == runs[2]
    assert trained_as("rope( base=5 )") == "rope( base=5 )", "its own, however it is spelled"
    assert {"rope", "alibi", "sinusoidal"} <= shared_trainings()
    assert "rope(base=5.0)" in shared_trainings(["yarn(base=5.0)"])
    assert "t5" not in shared_trainings()
