"""The subject of checks: models of one encoding with the settings of the shipped suites, and sequences for them."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

import tasks
from bench import encodings
from bench.encodings import Encoding, Setup, Wrapper
from bench.plugins.source_hash import closure
from bench.runs.run_training import encoding_setup
from bench.suites.suite import Suite, load_suite, shipped
from bench.training.model import Decoder, build_decoder
from tasks import Task

LENGTHS = {"test_at": [0.5, 1, 1.5, 2], "vary": None, "learning_rates": [], "blocks": []}
"""Changes of a shipped suite: tests to 2 L, because checks try every length."""
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
        return f"{self.task.name} of suite {self.suite.name}"

    def sequences(self, count: int, width: int, seed: int) -> Int[Tensor, "N T"]:
        """Rows of ``width`` tokens: even rows begin with a real example, the rest is random tokens."""
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randint(len(self.setup.symbols), (count, width), generator=generator)
        lengths = [n for n in range(1, self.task.longest + 1) if self.task.tokens(n) <= width] or [1]
        for n in range(0, count, 2):
            example = example_tokens(type(self.task), self.task.variant, self.task.longest, lengths[-1], 1_000_000 + seed + n)
            rows[n, : min(len(example), width)] = torch.tensor(example[:width])
        return rows


@lru_cache(4096)
def example_tokens(cls: type[Task], variant: str, longest: int, length: int, seed: int) -> tuple[int, ...]:
    """One test example. Cached: checks use the same ones again and again, and drawing them takes a tenth of their time."""
    return tuple(tasks.test_set(cls(variant, longest), length, 1, seed).tokens[0].tolist())


@cache
def suites_to_check() -> list[Suite]:
    """Suite ``small`` at short lengths, and for every other number of layers the first shipped suite with it."""
    by_layers: dict[int, Suite] = {}
    for suite in (load_suite("small"), *map(load_suite, shipped())):
        by_layers.setdefault(suite.model.layers, suite)
    specs = {
        suite.name: [spec.model_dump() | {"test_at": None} for spec in suite.tasks if is_ranked(spec.task)]
        for suite in by_layers.values()
    }
    return [
        Suite.model_validate(suite.model_dump() | LENGTHS | {"tasks": specs[suite.name]})
        for suite in by_layers.values()
        if specs[suite.name]
    ]


def is_ranked(task: str) -> bool:
    return tasks.catalogue()[task].ranked


@dataclass
class Subject:
    """An encoding to be checked.

    Arguments:
        suite: its first task is the main case; its other tasks are used less.
        other_suites: suites with other numbers of layers; some checks use their first tasks.
    """

    cls: type[Encoding]
    suite: Suite = field(default_factory=lambda: suites_to_check()[0])
    other_suites: Sequence[Suite] = field(default_factory=lambda: suites_to_check()[1:])

    @cached_property
    def cases(self) -> list[Case]:
        return [Case.of_task(self.suite, spec.task) for spec in self.suite.tasks]

    @property
    def main(self) -> Case:
        return self.cases[0]

    @cached_property
    def other_cases(self) -> list[Case]:
        return [Case.of_task(suite, suite.tasks[0].task) for suite in self.other_suites]

    @cached_property
    def own_files(self) -> set[str]:
        """Source files of the encoding and of those it wraps that are not built in; if all of them are built in, all."""
        built_in, own, cls = set(), set(), self.cls
        while cls is not Encoding:
            ours, plugins = closure(cls)
            built_in |= {str(path) for path in ours.values()}
            own |= {str(path) for source in plugins.values() for path in source.paths}
            cls = cls.inner if issubclass(cls, Wrapper) else Encoding
        return own or built_in

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
    """An encoding and those it wraps, without built-in ones. Only these must follow the rules of submissions: titles of
    built-in encodings may contain, for example, quotation marks."""
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
