"""State: none may carry over between forward passes, and the state dict is the whole state."""

import pickle
import random
from itertools import product

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor

from .checks import Fault, check
from .subject import Subject, hidden_states, mode


@check(
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


@check(
    "randomness",
    advice="keep every number that is drawn or learned in a parameter (nn.Parameter) or a buffer (register_buffer), and depend "
    "on nothing that varies: time, memory addresses, hash(), the order of sets",
)
def check_randomness(subject: Subject) -> str:
    """Outputs depend on tokens, state dict and at.generator alone, and info.random says if any numbers are drawn."""
    declared, draws = subject.cls.info.random, False
    model, other = subject.model(seed=3), subject.model(seed=4)
    state = load(save({name: tensor.contiguous() for name, tensor in model.state_dict().items()}))
    other.load_state_dict(state)
    for training, width in product((True, False), (subject.setup.train_tokens, subject.setup.longest_tokens)):
        tokens, generator = subject.sequences(2, width, seed=0), torch.Generator().manual_seed(0)
        start, global_start = generator.get_state(), global_generators()
        model.train(training)(tokens, tokens.shape[1], generator)
        draws |= not torch.equal(start, generator.get_state())
        advice = "pass generator=at.generator to every draw, and declare random=True in info"
        if global_start != global_generators():
            raise Fault(f"{mode(training)}: a pass draws from a global generator (torch's, numpy's or Python's)", advice)
        if not torch.equal(*(hidden_states(one, tokens, training=training, seed=4) for one in (model, other))):
            raise Fault(f"{mode(training)}: outputs are others after a model of another seed has loaded the state dict")
    if draws != declared:
        raise Fault(f"draws {'' if draws else 'nothing '}from at.generator, but info says random={declared}", advice)
    count = sum(name.startswith("encoding.") for name in state)
    return f"draws {'from at.generator only' if draws else 'nothing'}, as declared; tensors of the encoding: {count or 'none'}"


def global_generators() -> tuple[bytes, ...]:
    return tuple(map(pickle.dumps, (torch.get_rng_state().tolist(), np.random.get_state(), random.getstate())))
