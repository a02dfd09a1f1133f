"""Loss of masked words of bidirectional models, and of the next word of causal ones, on the language task."""

from dataclasses import replace

import numpy as np
import torch
from torch.nn import functional as F

import tasks
from bench.plugins.registry import get_encoding
from bench.runs.run_training import encoding_setup
from bench.suites.suite import load_suite
from bench.training.model import Decoder, build_decoder
from bench.training.optimizer import AdamW
from bench.training.train import derive_seed, learning_rate
from tasks.base import SEP, stream

ENCODINGS = ("nope", "learned", "sinusoidal")
WORDS, STEPS, BATCH, TESTED = 12, 6000, 64, 512
MASKED = 0.15
"""Share of words that are replaced by ``<sep>``, which no text holds."""


def measure(seed: int) -> dict[str, float]:
    """Nats a word on held-out texts, by kind of model and encoding."""
    kinds = (("masked", False), ("causal", True))
    return {f"{kind}/{name}": trained_loss(name, causal, seed) for kind, causal in kinds for name in ENCODINGS}


def trained_loss(name: str, causal: bool, seed: int) -> float:
    suite, task = load_suite("language"), tasks.get("language", longest=WORDS)
    recipe = suite.recipe.model_copy(update={"steps": STEPS})
    setup = replace(
        encoding_setup(suite, "language"),
        train_tokens=WORDS + 1, longest_tokens=WORDS + 1, train_length=WORDS, longest_length=WORDS,
    )  # fmt: skip
    model = build_decoder(suite.model, get_encoding(name), setup, derive_seed("init", seed))
    model.causal = causal
    optimizer = AdamW(model, recipe)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, task, BATCH, f"masked_language_{seed}", step)
        loss.backward()
        optimizer.set_rate(learning_rate(recipe, step))
        optimizer.update(loss.detach(), recipe.clip_norm)
    with torch.inference_mode():
        model.eval().cache.clear()
        return loss_of(model, task, TESTED, "masked_language_test", 0).item()


def loss_of(model: Decoder, task: tasks.Task, count: int, split: str, index: int) -> torch.Tensor:
    """Mean cross-entropy of the masked words, or of every word but the first if the model is causal."""
    rng = stream(task, split, 0, index)
    text = torch.from_numpy(np.delete(task.sample(WORDS, count, rng).tokens[:, 1 : WORDS + 3], 1, 1))  # words alone
    if model.causal:
        states, truth = model(text, WORDS + 1)[:, :-1], text[:, 1:]
    else:
        masked = torch.from_numpy(rng.random(text.shape) < MASKED)
        states, truth = model(text.masked_fill(masked, SEP), WORDS + 1)[masked], text[masked]
    return F.cross_entropy(model.logits(states).flatten(0, -2), truth.flatten())
