"""The extra stage that some encodings declare: a few more steps, at longer lengths in a ranking class of its own."""

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
from bench.training.model import Decoder
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, learning_rate, stage_steps, train
from tasks import InputError

TASK = tasks.get("copying", "repeat", 12)


def trained(name: str, steps: int, train_length: int = 4) -> Decoder:
    model, recipe = task_model(name, TASK, train_length), recipe_of(steps=steps)
    train(model, AdamW(model, recipe), TASK, train_length, recipe, 0, TrainingState())
    return model


def spied(model: Decoder, monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, bool, int]]:
    """Whether each pass is in training and after the beginning of the stage, and the announced length, as they come."""
    calls, real = [], model.packed_states

    def spy(tokens, layout, announced_length, *others):
        calls.append((model.training, model.after_stage, announced_length))
        return real(tokens, layout, announced_length, *others)

    monkeypatch.setattr(model, "packed_states", spy)
    return calls


def test_encodings_with_a_stage_have_their_own_ranking_class():
    staged = {name for name, cls in encodings.catalogue().items() if cls.stage and cls.stage.longer}
    assert {"finetuned(yarn)", "finetuned(interpolated(rope,fixed=True))"} <= staged
    longer = {name for name, cls in encodings.catalogue().items() if cls.info.ranking == "longer"}
    assert longer == staged | {"pose(rope)"}, "`pose` trains at the position ids of longer lengths, without a stage"
    for name in staged:
        cls = encodings.catalogue()[name]
        assert 0 < cls.stage.share <= 0.01, name
        assert cls.stage.encoding_only or encodings.hooks(cls) == encodings.hooks(cls.inner), name
    assert get_encoding("ssmax(finetuned(rope,percent=5))").stage == Stage(0.05), "a wrapper passes the stage on"
    for name in ("head_scale(finetuned(rope))", "finetuned(finetuned(rope,percent=5))", "finetuned(drope)"):
        with pytest.raises(InputError, match="has two extra training stages; expected one"):
            get_encoding(name)
    drope = get_encoding("drope")
    assert drope.info.ranking == "standard" and not list(drope.stage.faults("standard", plugin=False))


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
    calls, real = [], tasks.train_batch

    def spy(task, length, size, seed, step, *shortest):
        calls.append((step, length))
        return real(task, length, size, seed, step, *shortest)

    monkeypatch.setattr(tasks, "train_batch", spy)
    for name, extra in (("rope", [None, None, None]), ("finetuned(rope)", [12, 12, None])):
        calls.clear()
        trained(name, 200)
        lengths = dict(calls)
        assert all(lengths[step] == 4 for step in range(200))
        assert [lengths.get(step) for step in (200, 201, 202)] == extra


def test_a_result_contains_the_longest_length_seen(tmp_path):
    suite = validated(Suite, suite_dict(recipe={"steps": 100}), "suite")
    seen = {}
    for name in ("rope", "finetuned(rope)"):
        result = run_one(Run(suite, "copying", name, 0), tmp_path, "cpu")
        seen[name] = (result.steps, result.longest_seen, result.encoding.ranking)
    assert seen == {"rope": (100, 4, "standard"), "finetuned(rope)": (101, 8, "longer")}


@pytest.mark.parametrize(("name", "announced"), [("yarn", (2, 4, 12)), ("finetuned(yarn)", (12, 12, 12))])
def test_after_the_stage_tests_announce_the_same_length_as_the_stage(name, announced, monkeypatch):
    model = task_model(name, TASK, 4)
    calls = spied(model, monkeypatch)
    evaluate(model, TASK, {n: TASK.test_examples(n, 4, 0) for n in (2, 4, 12)}, 0)
    assert [length for *_, length in calls] == [TASK.tokens(n) for n in announced]


def test_drope_drops_positions_in_a_stage_at_the_training_lengths(monkeypatch):
    recipe, model = recipe_of(steps=40), task_model("drope", TASK, 4)
    calls = spied(model, monkeypatch)
    train(model, AdamW(model, recipe), TASK, 4, recipe, 0, TrainingState())
    assert calls == [(True, step >= 40, TASK.tokens(4)) for step in range(45)]
    calls.clear()
    evaluate(model, TASK, {n: TASK.test_examples(n, 4, 0) for n in (4, 12)}, 0)
    assert calls == [(False, True, TASK.tokens(n)) for n in (4, 12)]


def test_drope_is_rope_in_training_and_nope_in_its_stage_and_in_tests():
    tokens = torch.randint(5, (2, 9), generator=torch.Generator().manual_seed(0))
    drope, rope, nope = (task_model(name, TASK, 4) for name in ("drope", "rope", "nope"))
    assert torch.equal(drope.train()(tokens, 9), rope.train()(tokens, 9))
    assert torch.equal(drope.eval()(tokens, 9), nope.eval()(tokens, 9))
    drope.train()
    drope.in_stage = True
    assert torch.equal(drope(tokens, 9), nope(tokens, 9)), "the position cache distinguishes the stage"


def test_head_scale_is_tuned_alone():
    ours, plain = trained("head_scale(nope)", 200), dict(trained("nope", 200).named_parameters())
    assert (ours.encoding.s - 1).abs().max() > 0
    for name, parameter in ours.named_parameters():
        assert name == "encoding.s" or torch.equal(parameter, plain[name]), name
