"""Distance between f(permuted tokens) and permuted f(tokens) of a model without encoding, with and without the causal mask."""

import torch

import tasks
from bench.encodings import Setup
from bench.encodings.nope import NoPE
from bench.suites.suite import load_suite
from bench.training.model import build_decoder


@torch.inference_mode()
def measure(seed: int) -> dict[str, float]:
    spec, task = load_suite("small").model, tasks.get("sorting")
    tokens, size = torch.as_tensor(tasks.test_set(task, 24, 8, seed).tokens), task.tokens(24)
    setup = Setup(
        layers=spec.layers, width=spec.width, heads=spec.heads, head_width=spec.width // spec.heads, train_tokens=size,
        longest_tokens=size, train_length=24, longest_length=24, symbols=task.vocabulary.symbols, roles=task.vocabulary.roles,
    )  # fmt: skip
    model = build_decoder(spec, NoPE, setup, seed).eval()
    order = torch.randperm(tokens.shape[1], generator=torch.Generator().manual_seed(seed))
    found = {}
    for name, causal in (("without mask", False), ("with mask", True)):
        model.causal = causal
        model.cache.clear()  # holds masks
        states, permuted = model(tokens, size), model(tokens[:, order], size)
        found[name] = float((permuted - states[:, order]).abs().max() / states.abs().max())
    return found
