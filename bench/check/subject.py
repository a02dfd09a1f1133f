"""The subject of checks: models of one encoding with the settings of a suite, and sequences for them."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache, cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bench import encodings
from bench.encodings import Encoding, Setup, Wrapper
from bench.runs.run_training import encoding_setup
from bench.suites.suite import Suite, load_suite
from bench.training.model import Decoder, build_decoder
from tasks import Task

CHANGES = {"test_at": [0.5, 1, 1.5, 2], "learning_rates": [], "blocks": []}
"""Changes of suite ``small`` for the checks: tests to 2 L."""
TASK = "addition"
"""Its one task: its tokens have several roles."""
TOLERANCE = 1e-4
"""Absolute and relative tolerance for equal outputs, which have unit scale; float32 rounding gives some 1e-6."""


@cache
def checked_suite() -> Suite:
    """One task of suite ``small``, at short lengths."""
    suite = load_suite("small")
    specs = [suite.spec(TASK).model_dump() | {"test_at": None}]
    return Suite.model_validate(suite.model_dump() | CHANGES | {"tasks": specs})


@dataclass
class Subject:
    """An encoding to be checked.

    Arguments:
        suite: its first task is the one that models are built for.
    """

    cls: type[Encoding]
    suite: Suite = field(default_factory=checked_suite)

    @cached_property
    def task(self) -> Task:
        return self.suite.make_task(self.suite.tasks[0].task)

    @cached_property
    def setup(self) -> Setup:
        return encoding_setup(self.suite, self.task.name)

    @property
    def plugin(self) -> type[Encoding]:
        """The class that is not built in, if any: the encoding, or what it wraps."""
        return next(iter(plugin_classes(self.cls)), self.cls)

    def sequences(self, count: int, width: int, seed: int) -> Int[Tensor, "N T"]:
        """Rows of ``width`` random tokens."""
        return torch.randint(len(self.setup.symbols), (count, width), generator=torch.Generator().manual_seed(seed))

    def model(self, seed: int = 0) -> Decoder:
        """A model as a run would build it, with noise on the encoding's parameters: zeros would hide their effect."""
        model = build_decoder(self.suite.model, self.cls, self.setup, seed)
        generator = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            for parameter in filter(Tensor.is_floating_point, model.encoding.parameters()):
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        return model


def plugin_classes(cls: type[Encoding]) -> list[type[Encoding]]:
    """An encoding and those it wraps, without built-in ones."""
    inner = plugin_classes(cls.inner) if issubclass(cls, Wrapper) and cls.inner is not Encoding else []
    return inner if cls.__module__.startswith(f"{encodings.__name__}.") else [cls, *inner]


def hidden_states(
    model: Decoder, tokens: Int[Tensor, "B T"], announced_length: int | None = None, training: bool = False, seed: int = 0
) -> Float[Tensor, "B T D"]:
    """Outputs of the last layer, in training or evaluation mode; ``announced_length`` is by default T."""
    model.train(training)
    with nullcontext() if training else torch.inference_mode():
        return model(tokens, announced_length or tokens.shape[1], torch.Generator().manual_seed(seed)).detach()


def rows_differ(a: Float[Tensor, "*rows D"], b: Float[Tensor, "*rows D"], tolerance: float = TOLERANCE) -> Tensor:
    """For every row, whether it differs or is not finite."""
    return ~torch.isclose(a, b, rtol=tolerance, atol=tolerance).all(-1)


def mode(training: bool) -> str:
    return "in training" if training else "in evaluation"
