"""The extra stage that some encodings declare: a hundredth of the steps, at longer lengths, marked as such."""

import pytest
import torch
from helpers import recipe_of, task_model
from support import suite_dict

import tasks
from bench import encodings
from bench.encodings import Stage
from bench.evaluate import evaluate
from bench.optimizer import FlatAdamW
from bench.runs import Run
from bench.suite import Suite, validated
from bench.train import State, learning_rate, stage_steps, train
from bench.work import execute

TASK = tasks.get("copying", "repeat", 12)
STAGED = [name for name, cls in encodings.catalogue().items() if cls.stage]


def test_the_catalogue_has_encodings_with_a_stage_and_ranks_them_apart():
    assert {"finetuned(yarn)", "finetuned(interpolated(rope,fixed=True))"} <= set(STAGED)
    for name, cls in encodings.catalogue().items():
        assert (cls.info.ranking == "longer") == (cls.stage is not None), name
        assert cls.stage is None or cls.stage.share <= 0.01
    assert encodings.get("ssmax(finetuned(rope))").stage is not None, "a wrapper hands the stage on"


@pytest.mark.parametrize(("steps", "extra"), [(99, 0), (100, 1), (1999, 19), (2000, 20)])
def test_the_stage_is_never_more_than_a_hundredth(steps, extra):
    assert stage_steps(recipe_of(steps=steps), Stage()) == extra
    assert stage_steps(recipe_of(steps=steps), None) == 0


def test_the_stage_has_a_rate_of_its_own_that_falls_to_zero():
    recipe = recipe_of(steps=200)
    rates = [learning_rate(recipe, step, 2) for step in range(199, 202)]
    assert rates[0] < 1e-6
    assert rates[1:] == [0.1 * recipe.learning_rate, 0.05 * recipe.learning_rate]


def test_the_stage_comes_after_the_recipe_at_lengths_up_to_the_longest(monkeypatch):
    recipe, asked = recipe_of(steps=200), []
    real = tasks.train_batch

    def spy(task, length, size, seed, step):
        asked.append((step, length))
        return real(task, length, size, seed, step)

    monkeypatch.setattr(tasks, "train_batch", spy)
    models = {}
    for name in ("rope", "finetuned(rope)"):
        asked.clear()
        model, state = task_model(name, TASK, 4), State()
        weights = {}

        def after(state, model=model, weights=weights):
            if state.step == 200:
                weights.update({n.replace("encoding.base", "encoding"): p.clone() for n, p in model.named_parameters()})

        train(model, FlatAdamW(model, recipe), TASK, 4, recipe, 0, state, after)
        models[name] = weights
        lengths = dict(asked)
        assert all(lengths[step] == 4 for step in range(200))
        assert [lengths.get(step) for step in (200, 201, 202)] == ([12, 12, None] if "(" in name else [None] * 3)
    plain, tuned = models.values()
    assert all(torch.equal(plain[n], tuned[n]) for n in plain), "up to there it is the very same training"


def test_a_result_says_what_length_was_seen(tmp_path):
    suite = validated(Suite, suite_dict(recipe={"steps": 100}), "suite")
    seen = {}
    for name in ("rope", "finetuned(rope)"):
        result = execute(Run(suite, "copying", name, 0), tmp_path, "cpu")
        seen[name] = (result.steps, result.longest_seen, result.encoding.ranking)
    assert seen == {"rope": (100, 4, "standard"), "finetuned(rope)": (101, 8, "longer")}


def test_after_the_stage_every_test_is_announced_as_the_stage_was():
    """What hangs on the announced length must be in the tests what the stage made the model used to."""
    told = {}
    for name in ("yarn", "finetuned(yarn)"):
        model = task_model(name, TASK, 4)
        real, asked = model.read, []
        model.read = lambda batch, nominal, draws, real=real, asked=asked: (asked.append(nominal), real(batch, nominal, draws))[
            1
        ]
        evaluate(model, TASK, {n: tasks.test_set(TASK, n, 4, 0) for n in (2, 4, 12)}, 0)
        told[name] = asked
    assert told["yarn"] == [TASK.tokens(n) for n in (2, 4, 12)]
    assert told["finetuned(yarn)"] == [TASK.tokens(12)] * 3
