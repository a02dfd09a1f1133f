"""The extra stage that some encodings declare: a hundredth of the steps, at longer lengths, in its own ranking class."""

import pytest
import torch
from helpers import recipe_of, task_model
from support import suite_dict

import tasks
from bench import encodings
from bench.encodings import Stage
from bench.plugins.registry import get_encoding
from bench.runs.run import Run
from bench.runs.run_one import run_one
from bench.suites.suite import Suite, validated
from bench.training.evaluate import evaluate
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, learning_rate, stage_steps, train

TASK = tasks.get("copying", "repeat", 12)


def test_encodings_with_a_stage_have_their_own_ranking_class():
    staged = {name for name, cls in encodings.catalogue().items() if cls.stage and cls.stage.longer}
    assert {"finetuned(yarn)", "finetuned(interpolated(rope,fixed=True))"} <= staged
    longer = {name for name, cls in encodings.catalogue().items() if cls.info.ranking == "longer"}
    assert longer == staged | {"pose(rope)"}, "`pose` trains at the position ids of longer lengths, without a stage"
    for name in staged:
        cls = encodings.catalogue()[name]
        assert 0 < cls.stage.share <= 0.01, name
        assert cls.stage.encoding_only or encodings.hooks(cls) == encodings.hooks(cls.inner), name
    assert get_encoding("ssmax(finetuned(rope))").stage is not None, "a wrapper passes the stage on"


@pytest.mark.parametrize(("steps", "extra"), [(99, 0), (100, 1), (1999, 19), (2000, 20)])
def test_the_stage_has_at_most_a_hundredth_of_the_steps(steps, extra):
    assert stage_steps(recipe_of(steps=steps), Stage()) == extra
    assert stage_steps(recipe_of(steps=steps), None) == 0


def test_learning_rate_of_the_stage_decays_to_zero():
    recipe = recipe_of(steps=200)
    rates = [learning_rate(recipe, step, 2) for step in range(199, 202)]
    assert rates[0] < 1e-6
    assert rates[1:] == [0.1 * recipe.learning_rate, 0.05 * recipe.learning_rate]


def test_the_stage_follows_the_recipe_at_lengths_up_to_the_longest(monkeypatch):
    recipe, calls = recipe_of(steps=200), []
    real = tasks.train_batch

    def spy(task, length, size, seed, step, *shortest):
        calls.append((step, length))
        return real(task, length, size, seed, step, *shortest)

    monkeypatch.setattr(tasks, "train_batch", spy)
    models = {}
    for name in ("rope", "finetuned(rope)"):
        calls.clear()
        model, state = task_model(name, TASK, 4), TrainingState()
        weights = {}

        def after(state, model=model, weights=weights):
            if state.step == 200:
                weights.update({n.replace("encoding.base", "encoding"): p.clone() for n, p in model.named_parameters()})

        train(model, AdamW(model, recipe), TASK, 4, recipe, 0, state, after)
        models[name] = weights
        lengths = dict(calls)
        assert all(lengths[step] == 4 for step in range(200))
        assert [lengths.get(step) for step in (200, 201, 202)] == ([12, 12, None] if "(" in name else [None] * 3)
    plain, tuned = models.values()
    assert all(torch.equal(plain[n], tuned[n]) for n in plain), "until the stage, training is the same"


def test_a_result_contains_the_longest_length_seen(tmp_path):
    suite = validated(Suite, suite_dict(recipe={"steps": 100}), "suite")
    seen = {}
    for name in ("rope", "finetuned(rope)"):
        result = run_one(Run(suite, "copying", name, 0), tmp_path, "cpu")
        seen[name] = (result.steps, result.longest_seen, result.encoding.ranking)
    assert seen == {"rope": (100, 4, "standard"), "finetuned(rope)": (101, 8, "longer")}


def test_after_the_stage_tests_announce_the_same_length_as_the_stage():
    announced = {}
    for name in ("yarn", "finetuned(yarn)"):
        model = task_model(name, TASK, 4)
        real, calls = model.target_states, []
        model.target_states = lambda batch, announced_length, draws, real=real, calls=calls: (
            calls.append(announced_length),
            real(batch, announced_length, draws),
        )[1]
        evaluate(model, TASK, {n: tasks.test_set(TASK, n, 4, 0) for n in (2, 4, 12)}, 0)
        announced[name] = calls
    assert announced["yarn"] == [TASK.tokens(n) for n in (2, 4, 12)]
    assert announced["finetuned(yarn)"] == [TASK.tokens(12)] * 3
