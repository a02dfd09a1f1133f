"""Suites that sweep the learning rate, and blocks: what a run of each seed and rate is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.result import RUN_FOLDER, read_result, run_path
from bench.runs.run import Run, plan_runs
from bench.runs.run_one import run_one
from bench.runs.shared_training import training_run
from bench.suites.suite import Suite, load_suite
from tasks import InputError

QUICK = load_suite("quick").model_dump()
RATES = [1e-3, 4e-3]
BLOCKS = [{}, {"train_length": 0.75, "steps": 0.5}, {"train_length": 1.5, "batch": 2}]
SWEPT = QUICK | {"name": "swept", "learning_rates": RATES, "blocks": BLOCKS, "seeds": [0, 1, 2]}


def suite(**changes) -> Suite:
    return Suite.model_validate(SWEPT | changes)


@given(st.floats(1e-6, 1), st.integers(0, 2**31 - 1))
def test_a_folder_names_its_seed_and_rate(rate, seed):
    match = RUN_FOLDER.fullmatch(run_path("s", "t", "e", seed, rate).rpartition("/")[2])
    assert match and int(match[1]) == seed and float(match[2]) == float(f"{rate:g}")
    assert not RUN_FOLDER.fullmatch("seed-0-rate-0.004-2"), "a copy"


def test_a_grid_has_every_rate_of_a_seed_before_the_next_seed():
    runs = plan_runs(suite(), ["nope", "rope"], ["copying"])
    assert [(r.encoding, r.learning_rate, r.seed) for r in runs[:5]] == [
        ("nope", 1e-3, 0), ("rope", 1e-3, 0), ("nope", 4e-3, 0), ("rope", 4e-3, 0), ("nope", 1e-3, 1),
    ]  # fmt: skip
    assert len({r.path for r in runs}) == len(runs) == 12
    assert {r.learning_rate for r in plan_runs(suite(), ["nope"], rates=[0.5])} == {0.5}
    with pytest.raises(InputError, match=r"suite quick has one learning rate; expected no other, got 0\.5"):
        plan_runs(load_suite("quick"), rates=[0.5])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 100), rate=st.sampled_from(RATES))
def test_the_block_of_a_seed_changes_lengths_steps_and_batch(seed, rate):
    one, block = suite(), BLOCKS[seed % 3]
    run = Run(one, "key_retrieval", "nope", seed, rate)
    plain, spec = one.recipe_for("key_retrieval"), one.spec("key_retrieval")
    assert run.recipe.learning_rate == rate and run.recipe.betas == plain.betas
    assert run.train_length == round(spec.train_length * block.get("train_length", 1))
    assert run.steps == round(plain.steps * block.get("steps", 1)) and run.recipe.batch == plain.batch * block.get("batch", 1)
    lengths = [n / run.train_length for n in run.recipe_suite.test_lengths("key_retrieval")]
    asked = [n / spec.train_length for n in one.test_lengths("key_retrieval")]
    assert max(lengths) == pytest.approx(max(asked), rel=0.1)
    assert training_run(run).learning_rate == rate


def test_a_run_trains_at_its_rate_and_block_and_records_them(tmp_path):
    recipe = QUICK["recipe"] | {"steps": 4, "batch": 4, "warmup_steps": 1}
    tasks = [spec | {"recipe": {}} for spec in QUICK["tasks"] if spec["task"] == "copying"]
    one = suite(recipe=recipe, tasks=tasks, test_examples=4)
    results = {}
    for rate in RATES:
        run = Run(one, "copying", "nope", 1, rate)
        results[rate] = run_one(run, tmp_path)
        assert read_result(tmp_path / run.path / "result.json", run.path) == results[rate] == run.result(tmp_path)
    low, high = results.values()
    assert low.steps == 2 and (low.learning_rate, high.learning_rate) == tuple(RATES)
    assert low.loss != high.loss and low.data_hash == high.data_hash and low.train_length == 4


def test_a_result_of_another_task_source_and_other_data_is_not_used(tmp_path):
    recipe = QUICK["recipe"] | {"steps": 2, "batch": 4, "warmup_steps": 1}
    tasks = [spec | {"recipe": {}} for spec in QUICK["tasks"] if spec["task"] == "copying"]
    run = Run(suite(recipe=recipe, tasks=tasks, test_examples=4), "copying", "nope", 0, RATES[0])
    path = tmp_path / run.path / "result.json"
    run_one(run, tmp_path)
    text = path.read_text()
    hashes = run.result(tmp_path)
    path.write_text(text.replace(hashes.task_sha256, "0" * 64))  # the source changed, and the data did not
    assert run.standing(tmp_path).state == "done"
    path.write_text(text.replace(hashes.task_sha256, "0" * 64).replace(hashes.data_hash, "1" * 64))
    with pytest.raises(InputError, match="was tested on other examples than task copying has now"):
        run.result(tmp_path)
    assert run.standing(tmp_path).state == "unreadable" and "other examples" in run.standing(tmp_path).reason
