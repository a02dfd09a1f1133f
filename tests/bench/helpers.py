"""Helpers of the tests of ``bench``: tiny setups and models, the attention of a single layer, the register of oracles."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

import tasks
from bench import encodings
from bench.encodings import At, Encoding, Setup
from bench.plugins.registry import get_encoding
from bench.suites.parts import ModelSpec, Recipe
from bench.suites.suite import load_suite
from bench.training.model import Decoder, build_decoder

torch.set_num_threads(1)  # bit-for-bit claims hold for one thread

NAMES = list(encodings.catalogue())
QUICK = load_suite("quick")
HEAD_WIDTH = 8


def spec_of(heads: int = 3, layers: int = 2, head_width: int = HEAD_WIDTH) -> ModelSpec:
    small = {"layers": layers, "width": heads * head_width, "heads": heads, "mlp_width": 32}
    return ModelSpec.model_validate(QUICK.model.model_dump() | small)


def recipe_of(**changes: object) -> Recipe:
    small = {"steps": 45, "batch": 8, "learning_rate": 3e-3, "warmup_steps": 5}
    return Recipe.model_validate(QUICK.recipe.model_dump() | small | changes)


VOCABULARY = tasks.get("addition", "reversed", 4).vocabulary
"""A real vocabulary with digits, an operator and special tokens: encodings may depend on the roles of tokens."""


def setup_of(
    spec: ModelSpec,
    train_tokens: int = 12,
    longest_tokens: int = 120,
    vocabulary=VOCABULARY,
    lengths: tuple[int, int] | None = None,
) -> Setup:
    """A setup; ``lengths`` are L and L′ in the task's unit, by default those in tokens."""
    train_length, longest_length = lengths or (train_tokens, longest_tokens)
    return Setup(
        layers=spec.layers,
        width=spec.width,
        heads=spec.heads,
        head_width=spec.width // spec.heads,
        train_tokens=train_tokens,
        longest_tokens=longest_tokens,
        train_length=train_length,
        longest_length=longest_length,
        symbols=vocabulary.symbols,
        roles=vocabulary.roles,
    )


def tiny_model(encoding: str | type[Encoding], heads: int = 3, seed: int = 0, layers: int = 2, **sizes: int) -> Decoder:
    """A model with 2 layers for ``VOCABULARY``; ``sizes`` are passed to ``setup_of``."""
    cls = get_encoding(encoding) if isinstance(encoding, str) else encoding
    spec = spec_of(heads, layers)
    return build_decoder(spec, cls, setup_of(spec, **sizes), seed)


def task_model(encoding: str | type[Encoding], task: tasks.Task, train_length: int, seed: int = 0, **shape: int) -> Decoder:
    """A tiny model for one task."""
    cls = get_encoding(encoding) if isinstance(encoding, str) else encoding
    spec = spec_of(**shape)
    lengths = train_length, task.longest
    setup = setup_of(spec, *map(task.tokens, lengths), task.vocabulary, lengths)
    return build_decoder(spec, cls, setup, seed)


def random_tokens(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(len(VOCABULARY), (rows, length), generator=torch.Generator().manual_seed(seed))


def make_encoding(name: str, heads: int, head_width: int = HEAD_WIDTH, layers: int = 2, **sizes: int) -> Encoding:
    """One encoding without a model, in float64; ``sizes`` are passed to ``setup_of``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return get_encoding(name).make(setup_of(spec_of(heads, layers, head_width), **sizes)).double()


def perturbed(encoding: Encoding, scale: float = 0.5) -> Encoding:
    """Move every parameter off its initial value, since zeros hide mistakes."""
    source = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.add_(scale * torch.randn(parameter.shape, generator=source, dtype=torch.float64))
    return encoding


LAYER = 1
"""The layer in which encodings are compared, of two or more: parameters of the wrong layer would show."""


def context(
    encoding: Encoding, length: int, announced_length: int | None = None, ids: Tensor | None = None, layer: int = LAYER
) -> At:
    """The hooks' context in one layer, with random ``h``, for two sequences.

    Arguments:
        announced_length: by default the length.
        ids: position ids; by default those of ``positions``.
    """
    generator = torch.Generator().manual_seed(7)
    h = torch.randn(2, length, encoding.setup.width, generator=generator, dtype=torch.float64).requires_grad_()
    at = At(announced_length or length, source=lambda: h, generator=torch.Generator().manual_seed(0))
    at = replace(at, ids=encoding.positions(torch.zeros(2, length, dtype=torch.long), at) if ids is None else ids)
    return replace(at, shared=encoding.prepare(at), layer=layer)


def attention(encoding: Encoding, q: Tensor, k: Tensor, v: Tensor, at: At | None = None) -> Tensor:
    """Output of the attention of one layer for q, k, v [B, H, T, d]: runs the hooks in the model's order."""
    at = at or context(encoding, q.shape[2])
    q, k = encoding.rotate(q, k, at)
    return encoding.attend(q, k, v, encoding.bias(q, k, at), at)


def qkv(heads: int, length: int, rows: int = 2, head_width: int = HEAD_WIDTH, seed: int = 0) -> list[Tensor]:
    """Random q, k, v in float64 that require gradients."""
    source = torch.Generator().manual_seed(seed)
    shape = (3, rows, heads, length, head_width)
    return [x.clone().requires_grad_() for x in torch.randn(shape, generator=source, dtype=torch.float64)]


def assert_same(ours: Tensor, theirs: Tensor, inputs: Sequence[Tensor] = (), atol: float = 1e-6) -> None:
    """Assert equal values, and equal gradients of a random weighted sum of them with respect to ``inputs``."""
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours.double(), theirs.double(), atol=atol, rtol=atol)
    if inputs:
        weights = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        found = torch.autograd.grad((ours.double() * weights).sum(), inputs, retain_graph=True)
        expected = torch.autograd.grad((theirs.double() * weights).sum(), inputs, retain_graph=True)
        assert any(g.abs().max() > 0 for g in expected), "all gradients are zero, so nothing is compared"
        for ours_, theirs_ in zip(found, expected, strict=True):
            torch.testing.assert_close(ours_.double(), theirs_.double(), atol=10 * atol, rtol=10 * atol)


def assert_same_rotation(encoding: Encoding, q: Tensor, k: Tensor, theirs: Sequence[Tensor], at: At) -> None:
    """Assert that the encoding turns q and k as theirs, whose angles are in float32."""
    assert_same(torch.stack(encoding.rotate(q, k, at)), torch.stack(list(theirs)), [q, k], atol=3e-5)


ORACLES: dict[str, str] = {}
"""Encoding → what it is compared with."""


def oracle(*names: str, against: str) -> Callable:
    """Register a test as the oracle of encodings: it compares them with numbers of the authors or independent code.

    Oracle tests are in files named ``test_encodings_*.py``; ``test_every_encoding_has_an_oracle`` imports them all.
    """
    ORACLES.update(dict.fromkeys(names, against))
    return lambda test: test
