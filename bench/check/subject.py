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

CHANGES = {"test_at": [0.5, 1, 1.5, 2], "vary": None, "learning_rates": [], "blocks": []}
"""Changes of suite ``small`` for the checks: tests to 2 L."""
TASKS = ("copying", "addition")
TOLERANCE = 1e-4
"""Absolute and relative tolerance for equal outputs, which have unit scale; float32 rounding gives some 1e-6."""


@dataclass(frozen=True)
class Case:
    """One task of a suite: model, lengths and vocabulary."""

    suite: Suite
    task: Task
    setup: Setup

    @classmethod
    def of_task(cls, suite: Suite, name: str) -> "Case":
        return cls(suite, suite.make_task(name), encoding_setup(suite, name))

    def __str__(self) -> str:
        return f"task {self.task.name}"

    def sequences(self, count: int, width: int, seed: int) -> Int[Tensor, "N T"]:
        """Rows of ``width`` random tokens."""
        return torch.randint(len(self.setup.symbols), (count, width), generator=torch.Generator().manual_seed(seed))


@cache
def checked_suite() -> Suite:
    """Two tasks of suite ``small``, at short lengths."""
    suite = load_suite("small")
    specs = [spec.model_dump() | {"test_at": None} for spec in suite.tasks if spec.task in TASKS]
    return Suite.model_validate(suite.model_dump() | CHANGES | {"tasks": specs})


@dataclass
class Subject:
    """An encoding to be checked.

    Arguments:
        suite: its first task is the main case; its other tasks are used less.
    """

    cls: type[Encoding]
    suite: Suite = field(default_factory=checked_suite)

    @cached_property
    def cases(self) -> list[Case]:
        return [Case.of_task(self.suite, spec.task) for spec in self.suite.tasks]

    @property
    def main(self) -> Case:
        return self.cases[0]

    @property
    def plugin(self) -> type[Encoding]:
        """The class that is not built in, if any: the encoding, or what it wraps."""
        return next(iter(plugin_classes(self.cls)), self.cls)

    def model(self, case: Case | None = None, seed: int = 0, noise: float = 0.1) -> Decoder:
        """A model as a run would build it.

        Arguments:
            noise: standard deviation of noise added to the encoding's parameters; zeros would hide their effect.
        """
        case = case or self.main
        model = build_decoder(case.suite.model, self.cls, case.setup, seed)
        generator = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            for parameter in filter(Tensor.is_floating_point, model.encoding.parameters()):
                parameter.add_(noise * torch.randn(parameter.shape, generator=generator))
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
