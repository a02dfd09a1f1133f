"""DroPE: RoPE up to the recipe's last step, no positions from then on."""

from dataclasses import replace

import torch
from golden import assert_rows, build, cases, load, wave
from helpers import oracle, random_tokens, recipe_of, task_model, tiny_model

import tasks
from bench.encodings import At
from bench.encodings.compose import training_form
from bench.plugins.registry import get_encoding
from bench.training.evaluate import evaluate
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, train

TASK = tasks.get("copying", "repeat", 12)


@oracle("drope", against="SakanaAI/DroPE, golden numbers")
def test_drope_equals_the_authors_before_and_after_dropping():
    golden = load("drope")
    for case in cases(golden["outputs"]):
        for stage in ("before", "after"):
            encoding, inputs = build("drope", {}), golden["inputs"]
            q, k, v = (wave(inputs[name], case["T"]) for name in "qkv")
            at = At(case["T"], after_stage=stage == "after", ids=torch.arange(case["T"]))
            at = replace(at, shared=encoding.prepare(at))
            output = encoding.attend(*encoding.rotate(q, k, at), v, None, at)
            assert_rows(output, case[f"output_{stage}"], case["rows"])


def test_it_is_rope_in_training_and_nope_in_tests():
    tokens = random_tokens(2, 9)
    drope, rope, nope = (tiny_model(name) for name in ("drope", "rope", "nope"))
    assert torch.equal(drope.train()(tokens, 9), rope.train()(tokens, 9))
    assert torch.equal(drope.eval()(tokens, 9), nope.eval()(tokens, 9))
    drope.train()
    drope.in_stage = True
    assert torch.equal(drope(tokens, 9), nope(tokens, 9)), "the position cache distinguishes the stage"


def test_the_stage_trains_without_positions_at_the_training_lengths(monkeypatch):
    recipe, calls = recipe_of(steps=40), []
    model = task_model("drope", TASK, 4)
    real = model.target_states

    def spy(batch, announced_length, generator=None):
        calls.append((model.training, model.after_stage, announced_length))
        return real(batch, announced_length, generator)

    monkeypatch.setattr(model, "target_states", spy)
    state = TrainingState()
    train(model, AdamW(model, recipe), TASK, 4, recipe, 0, state)
    assert state.step == 45
    assert calls == [(True, step >= 40, TASK.tokens(4)) for step in range(45)]
    calls.clear()
    evaluate(model, TASK, {n: tasks.test_set(TASK, n, 4, 0) for n in (4, 12)}, 0)
    assert calls == [(False, True, TASK.tokens(n)) for n in (4, 12)]


def test_its_declaration():
    cls = get_encoding("drope(base=500000)")
    assert cls.info.ranking == "standard"
    assert not list(cls.stage.faults("standard", plugin=False))
    assert training_form(cls).info.name == "rope(base=500000.0)"
