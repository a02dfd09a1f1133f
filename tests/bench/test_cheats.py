"""Cheats that only the judge of a sealed run catches. What hooks do while they are checked: test_check.py."""

from dataclasses import replace

import pytest
from cheat_files import sealed_code, start_thread
from support import ROOT, suite_dict

from bench.runs.run import Run
from bench.runs.run_lock import read_heartbeat
from bench.runs.run_one import run_one
from bench.sealed import process, served_model
from bench.sealed.run import SealedRequest, run_sealed
from bench.suites.suite import Suite, validated
from bench.training.train import Stopped
from tasks import InputError

pytestmark = pytest.mark.usefixtures("fresh_registry")
SHORT = validated(Suite, suite_dict(test_examples=96, test_at=[1, 2]), "short")
"""Of sealed runs, with batches as large as real ones."""


@pytest.fixture
def short_runs(monkeypatch):
    """Sealed runs in threads, of a short training."""
    monkeypatch.setattr(process, "start_sandboxed", start_thread)


@pytest.mark.usefixtures("short_runs")
def test_examples_and_initial_weights_of_a_sealed_run_are_drawn_when_it_began():
    first, second = (run_sealed(Run(SHORT, "copying", "alibi", 0), sealed_code("alibi")) for _ in range(2))
    suite = Run(SHORT, "copying", "alibi", 0).recipe_suite
    assert first.loss != second.loss and first.test_seed != second.test_seed
    assert len({first.data_hash, second.data_hash, suite.data_hash("copying")}) == 3
    assert first.data_hash == suite.data_hash("copying", first.test_seed)


@pytest.mark.usefixtures("short_runs")
def test_an_encoding_that_needs_only_positions_in_training_sees_no_content_in_a_test(monkeypatch):
    tables, calls = served_model.position_tables, []
    monkeypatch.setattr(
        served_model, "position_tables", lambda model: calls.append(1) or (tables(model) if len(calls) < 3 else None)
    )
    with pytest.raises(InputError, match="says of itself in a test other than in training"):
        run_sealed(Run(SHORT, "copying", "alibi", 0), sealed_code("alibi"))
    assert len(calls) == 3, "after the first test length"


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize(
    ("name", "cheat", "sees_content"), [("peeks", "Peeks", True), ("peeks_in_batches", "PeeksInBatches", False)]
)
def test_looking_ahead_gains_nothing_in_a_sealed_run(name, cheat, sees_content, tmp_path):
    recipe = {"steps": 400, "warmup_steps": 20, "learning_rate": 0.01}
    run = Run(validated(Suite, suite_dict(recipe=recipe), "tiny"), "copying", name, 0)
    sealed = run_sealed(run, sealed_code(cheat), secret=0)
    assert sealed.sees_content == sees_content
    assert run_one(run, tmp_path, "cpu").scores[-1].token > 0.6 > 0.3 > sealed.scores[-1].token, "of the tokens past L"


@pytest.mark.sandbox
def test_what_code_remembers_of_training_and_other_tests_is_lost():
    """The cheat says what it has seen by an error."""
    code = replace(sealed_code("Remembers"), readable=[ROOT / "tests/plugins/cheats.py"])
    assert run_sealed(Run(SHORT, "copying", code.encoding.name, 0), code).status == "done"


@pytest.mark.usefixtures("short_runs")
def test_a_sealed_run_counts_its_stage_and_stops_in_its_tests(tmp_path):
    run, beats = Run(validated(Suite, suite_dict(recipe={"steps": 100}), "tiny"), "copying", "finetuned(rope)", 0), []

    def should_stop() -> bool:
        beats.append(read_heartbeat(run.folder(tmp_path)))
        return len(beats) > 101

    with pytest.raises(Stopped):
        SealedRequest.of_run(run, sealed_code(run.encoding)).execute(tmp_path, "cpu", 10, should_stop)
    assert {beat.steps for beat in beats[1:]} == {101}
