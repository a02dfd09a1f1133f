"""Distance between f(permuted tokens) and permuted f(tokens) of a model without encoding, with and without the causal mask."""

from functools import partial

import torch

from bench.encodings import Setup
from bench.encodings.nope import NoPE
from bench.suites.suite import load_suite
from bench.training.model import Decoder

LENGTH, SYMBOLS = 24, 12


@torch.inference_mode()
def measure(seed: int) -> dict[str, float]:
    """Largest distance, relative to the largest hidden state, of a model with random weights."""
    spec, errors = load_suite("small").model, {}
    setup = Setup(spec.layers, spec.width, spec.heads, spec.width // spec.heads, LENGTH, LENGTH, LENGTH, LENGTH)
    for label, causal in (("without mask", False), ("with mask", True)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = Decoder(spec, SYMBOLS, partial(NoPE, setup), causal).eval()
            tokens, order = torch.randint(SYMBOLS, (4, LENGTH)), torch.randperm(LENGTH)
        states, permuted = model(tokens, LENGTH), model(tokens[:, order], LENGTH)
        errors[label] = float((permuted - states[:, order]).abs().max() / states.abs().max())
    return errors
