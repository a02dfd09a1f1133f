"""Which encodings share a training, by their declaration: the trainings are equal bit for bit, and so are outputs up to L."""

from dataclasses import replace

import pytest
import torch
from helpers import NAMES, random_tokens, recipe_of, task_model

import tasks
from bench import encodings
from bench.encodings.compose import training_form, wrapped_class
from bench.encodings.ntk import NTK
from bench.encodings.scaling import SSMax
from bench.plugins.registry import get_encoding
from bench.runs.shared_training import trained_as
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, train

WRAPPERS = [name for name, cls in encodings.classes().items() if issubclass(cls, encodings.Wrapper) and name != "head_scale"]
"""All but ``head_scale``, whose parameters only its own training has."""
SHARING = [name for name in NAMES if trained_as(name) != name]
TASK = tasks.get("copying", "repeat", 16)


@pytest.mark.parametrize(
    ("encoding", "form"),
    [
        ("ntk", "rope"),
        ("yarn(base=500000)", "rope(base=500000.0)"),
        ("drope(base=500000)", "rope(base=500000.0)"),
        ("interpolated(alibi)", "alibi"),
        ("logn(yarn,only_past=True)", "rope"),
        ("logn(ntk)", "logn(rope)"),
        ("randomised(ntk,longest=4096)", "randomised(rope,longest=4096)"),
        ("ssmax(finetuned(ntk))", "ssmax(rope)"),
        ("rope_partial", "rope_partial"),
    ],
)
def test_which_training_an_encoding_shares(encoding, form):
    assert training_form(get_encoding(encoding)).info.name == form


def test_a_training_form_trains_as_itself_and_has_no_stage():
    for name in NAMES:
        cls = get_encoding(name)
        form = training_form(cls)
        assert training_form(form) is form
        assert form is cls or not form.stage
    assert set(SHARING) >= {"ntk", "ntk_dynamic", "yarn", "yarn_dynamic", "interpolated(alibi)", "finetuned(yarn)"}


def test_declarations_are_not_inherited_by_encodings_that_may_train_differently():
    class Mine(NTK):
        info = replace(NTK.info, name="mine")

    class MyWrapper(SSMax):
        info = replace(SSMax.info, name="my_wrapper")

    wrapped = wrapped_class(MyWrapper, get_encoding("ntk"))
    assert training_form(Mine) is Mine
    assert training_form(wrapped) is wrapped


def train_some(name: str, steps: int = 6):
    model, recipe, state = task_model(name, TASK, 8, seed=3), recipe_of(steps=steps), TrainingState()
    train(model, AdamW(model, recipe), TASK, 8, recipe, 5, state)
    return model, state


@pytest.mark.parametrize("name", [*SHARING, *(f"{wrapper}(ntk)" for wrapper in WRAPPERS)])
def test_the_declared_trainings_are_equal_bit_for_bit_and_so_are_outputs_up_to_the_training_length(name):
    """For the whole catalogue, and for every built-in wrapper."""
    form = trained_as(name)
    assert form != name
    (ours, state), (theirs, their_state) = train_some(name), train_some(form)
    assert state.loss == their_state.loss
    pairs = list(zip(ours.named_parameters(), theirs.named_parameters(), strict=True))
    assert all(a.replace("base.", "") == b.replace("base.", "") and torch.equal(p, q) for (a, p), (b, q) in pairs)
    if get_encoding(name).stage:
        return
    tokens = random_tokens(3, TASK.tokens(8)) % len(TASK.vocabulary)
    for length in (1, 5, 8):
        announced = TASK.tokens(length)
        outputs = []
        for model in (ours.eval(), theirs.eval()):
            generator = torch.Generator().manual_seed(0)
            outputs.append(model(tokens[:, :announced], announced, generator))
        assert torch.equal(*outputs)


HIDDEN = """
from dataclasses import replace
from bench.encodings.rope import RoPE
class Slow(RoPE):
    def thetas(self, at):
        return super().thetas(at) / 2
class Hidden(Slow):
    info = replace(RoPE.info, name="hidden")
    @classmethod
    def trained_as(cls):
        return Slow
"""


def test_a_training_is_shared_only_with_an_encoding_that_its_name_finds(tmp_path, fresh_registry):
    (tmp_path / "hidden.py").write_text(HIDDEN)
    assert trained_as(f"{tmp_path / 'hidden.py'}:Hidden").endswith("hidden.py:Hidden"), "not rope, the name that Slow inherits"
