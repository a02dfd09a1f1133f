"""State: none may carry over between forward passes, equal seeds give equal numbers, and the state dict is the whole state."""

import pickle
import random

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from bench.encodings.compose import training_form
from bench.training.model import build_decoder
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, train

from .checks import Fault, encoding_check
from .subject import Subject, hidden_states, mode, rows_differ

SHARED_STEPS = 5
"""Steps in which a training that is declared to be another's is compared with it."""


@encoding_check(
    "memory",
    advice="keep nothing from one pass to the next: compute what depends on position ids in `prepare`, fixed tables in the "
    "constructor (register_buffer), and store nothing in attributes, lists or globals",
)
def check_memory(subject: Subject) -> str:
    """A pass gives the same output, bit for bit, whatever passes came before it."""
    model, widths = subject.model(), (subject.setup.train_tokens, subject.setup.longest_tokens)
    batches = [subject.sequences(3 + n, width, seed=n) for n, width in enumerate(widths)]
    first_outputs: dict[tuple[int, bool], Tensor] = {}
    for _ in range(3):
        for training in (True, False):
            for n, tokens in enumerate(batches):
                output = hidden_states(model, tokens, training=training)
                if not torch.equal(output, first_outputs.setdefault((n, training), output)):
                    raise Fault(f"{mode(training)}, {tokens.shape[1]} tokens: the same batch gives another output later")
        model.train(True)
        model(batches[0], widths[0], torch.Generator().manual_seed(0)).square().mean().backward()
        model.zero_grad(set_to_none=True)
    return f"{len(batches)} batches gave the same output three times"


@encoding_check("randomness", advice="pass generator=at.generator to every draw, and declare random=True in info")
def check_randomness(subject: Subject) -> str:
    """Equal seeds give equal outputs, all random numbers come from at.generator, and info.random says if there are any."""
    models, declared = [subject.model(seed=3) for _ in range(2)], subject.cls.info.random
    tokens = subject.sequences(2, subject.setup.train_tokens, seed=0)
    before = global_generators()
    draws = False
    for training in (True, False):
        generator = torch.Generator().manual_seed(0)
        start = generator.get_state()
        models[0].train(training)(tokens, tokens.shape[1], generator)
        draws |= not torch.equal(start, generator.get_state())
        if before != global_generators():
            raise Fault(f"{mode(training)}: a pass draws from a global generator (torch's, numpy's or Python's)")
        if not torch.equal(*(hidden_states(model, tokens, training=training, seed=4) for model in models)):
            raise Fault(
                f"{mode(training)}: two models of the same seed give different outputs",
                "depend on nothing that varies: time, memory addresses, hash(), the order of sets",
            )
    if draws != declared:
        raise Fault(f"draws {'' if draws else 'nothing '}from at.generator, but info says random={declared}")
    return "draws from at.generator only, as declared" if draws else "draws nothing, as declared"


def global_generators() -> tuple[bytes, ...]:
    return tuple(map(pickle.dumps, (torch.get_rng_state().tolist(), np.random.get_state(), random.getstate())))


@encoding_check(
    "state dict",
    advice="keep every number that is drawn or learned in a parameter (nn.Parameter) or a buffer (register_buffer)",
)
def check_state_dict(subject: Subject) -> str:
    """A model of another seed gives the same outputs after it loads the state dict, through a safetensors file."""
    original, loaded = subject.model(seed=0), subject.model(seed=1)
    state = load(save({name: tensor.contiguous() for name, tensor in original.state_dict().items()}))
    loaded.load_state_dict(state)
    tokens = subject.sequences(2, subject.setup.longest_tokens, seed=0)
    for training in (True, False):
        before, after = (hidden_states(model, tokens, training=training) for model in (original, loaded))
        if rows_differ(before, after).any():
            raise Fault(f"{mode(training)}: outputs differ after loading, so the encoding keeps numbers outside its state dict")
    count = sum(name.startswith("encoding.") for name in state)
    return f"the same outputs; tensors of the encoding: {count or 'none'}"


@encoding_check("sharing", advice="correct or delete trained_as")
def check_shared_training(subject: Subject) -> str:
    """An encoding that declares its training to be another's has its losses, bit for bit."""
    form, suite = training_form(subject.cls), subject.suite
    if form is subject.cls:
        return "shares none"
    length = subject.setup.train_length
    recipe = suite.recipe.model_copy(update={"steps": SHARED_STEPS, "warmup_steps": 1})
    curves = []
    for cls in (subject.cls, form):
        model, state = build_decoder(suite.model, cls, subject.setup, 0), TrainingState()
        train(model, AdamW(model, recipe), subject.task, length, recipe, 0, state)
        curves.append(state.loss[:SHARED_STEPS])
    if curves[0] != curves[1]:
        raise Fault(f"it says that it is trained as {form.info.name}, but the losses differ")
    return f"trained as {form.info.name}: {SHARED_STEPS} equal losses"
