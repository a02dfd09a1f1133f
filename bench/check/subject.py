"""What is checked: models of one encoding under the conditions of the shipped suites, and sequences for them."""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

import tasks
from tasks import Task

from ..encodings import Encoding, Setup, Wrapper
from ..model import Decoder, build
from ..suite import Suite, load_suite, shipped

MODULES = ("declared", "sight", "batches", "state", "touch", "outside", "numbers", "training")
MAIN = "small"
"""The suite under whose conditions most is tried."""
CLOSE = 1e-4
"""Outputs, which have unit scale, count as equal within this, absolute and relative; float32 itself leaves some 1e-6."""


class Fault(Exception):
    """A check did not pass.

    Arguments:
        found: what was found instead.
        advice: what to do, where it is not what the check says of itself.
    """

    def __init__(self, found: str, advice: str = ""):
        super().__init__(found)
        self.advice = advice


class Skipped(Exception):
    """A check could not be made, for want of something that another asks for."""


@dataclass(frozen=True)
class Check:
    """One named check."""

    name: str
    expected: str
    advice: str
    """What to do where it does not pass."""
    run: Callable[[Any], str]
    """Takes what is examined, returns what was found; raises ``Fault``. Whatever else it raises is a fault too."""


CHECKS: list[Check] = []


def check(name: str, expected: str, advice: str, among: list[Check] = CHECKS) -> Callable:
    """Makes a function a check."""

    def register(run: Callable[[Any], str]) -> Callable[[Any], str]:
        among.append(Check(name, expected, advice, run))
        return run

    return register


def load_checks() -> list[Check]:
    """All checks, in the order of ``MODULES`` and of their files."""
    for module in MODULES:
        importlib.import_module(f"{__package__}.{module}")
    return sorted(CHECKS, key=lambda c: MODULES.index(c.run.__module__.rpartition(".")[2]))


@dataclass(frozen=True)
class Case:
    """One task of a suite: model, lengths and vocabulary."""

    suite: Suite
    task: Task
    setup: Setup

    @classmethod
    def of(cls, suite: Suite, name: str) -> "Case":
        task, model = suite.make_task(name), suite.model
        tokens = task.tokens(suite.spec(name).train_length), task.tokens(suite.longest(name))
        vocabulary = task.vocabulary
        head_width = model.width // model.heads
        setup = Setup(model.layers, model.width, model.heads, head_width, *tokens, vocabulary.symbols, vocabulary.roles)
        return cls(suite, task, setup)

    def __str__(self) -> str:
        return f"{self.task.name} of suite {self.suite.name}"

    def sequences(self, count: int, width: int, seed: int) -> Int[Tensor, "N T"]:
        """Rows of ``width`` tokens, in turns a real example (random tokens behind it where it is shorter) and random tokens."""
        source = torch.Generator().manual_seed(seed)
        rows = torch.randint(len(self.setup.symbols), (count, width), generator=source)
        fitting = [n for n in range(1, self.task.longest + 1) if self.task.tokens(n) <= width] or [1]
        for n in range(0, count, 2):
            example = tasks.test_set(self.task, fitting[-1], 1, 1_000_000 + seed + n).tokens[0][:width]
            rows[n, : len(example)] = torch.from_numpy(example)
        return rows


@dataclass
class Subject:
    """An encoding under examination.

    Arguments:
        suite: most is tried under the conditions of its first task; the others have their turn too.
        others: suites with other models, of more layers or fewer: some is tried under the conditions of their first tasks.
        at_import: what was seen while the plugin was imported (``outside.py``).
        harness: the harness's own functions before that (``state.py``).
        echo: the numbers of ``state.echo`` as another process finds them.
    """

    cls: type[Encoding]
    suite: Suite = field(default_factory=lambda: load_suite(MAIN))
    others: Sequence[Suite] = field(default_factory=lambda: [load_suite(name) for name in shipped() if name != MAIN])
    at_import: list = field(default_factory=list)
    harness: Mapping[str, int] | None = None
    echo: Callable[[], list[float]] | None = None

    @cached_property
    def cases(self) -> list[Case]:
        return [Case.of(self.suite, spec.task) for spec in self.suite.tasks]

    @property
    def main(self) -> Case:
        return self.cases[0]

    @cached_property
    def elsewhere(self) -> list[Case]:
        return [Case.of(suite, suite.tasks[0].task) for suite in self.others]

    @cached_property
    def parts(self) -> list[type[Encoding]]:
        """The classes it is made of, those of the harness aside: its own, those it inherits from, and those it wraps."""
        own = [c for c in self.cls.__mro__ if issubclass(c, Encoding) and c not in (Encoding, Wrapper)]
        inner = self.cls.inner if issubclass(self.cls, Wrapper) else Encoding
        return own + ([] if inner is Encoding else Subject(inner, self.suite, self.others).parts)

    @cached_property
    def files(self) -> set[str]:
        """Source files it is made of."""
        from .. import plugins

        found = set()
        for module in {part.__module__ for part in self.parts if not plugins.forgotten(part.__module__)}:
            found.add(str(Path(inspect.getfile(sys.modules[module])).resolve()))
            if not module.startswith(Encoding.__module__.rpartition(".")[0]):
                found |= {str(path) for path in plugins.source_of(module).paths}
        return found

    def model(self, case: Case | None = None, seed: int = 0, stir: float = 0.1) -> Decoder:
        """A model as a run would have it.

        Arguments:
            stir: how far the encoding's parameters are moved off their start, at random: zeros would hide what they do.
        """
        case = case or self.main
        model = build(case.suite.model, self.cls, case.setup, seed)
        source = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            for parameter in model.encoding.parameters():
                parameter.add_(stir * torch.randn(parameter.shape, generator=source))
        return model


def states(
    model: Decoder, tokens: Int[Tensor, "B T"], nominal: int | None = None, training: bool = False, seed: int = 0
) -> Float[Tensor, "B T D"]:
    """Hidden states as training or evaluation would make them; a sequence is as long as announced if nothing else is said."""
    model.train(training)
    with nullcontext() if training else torch.inference_mode():
        return model(tokens, nominal or tokens.shape[1], torch.Generator().manual_seed(seed)).detach()


def differs(a: Float[Tensor, "*rows D"], b: Float[Tensor, "*rows D"], most: float = CLOSE) -> Tensor:
    """For every row: is it another one? What is not finite is."""
    return ~torch.isclose(a, b, rtol=most, atol=most).all(-1)


def mode(training: bool) -> str:
    return "in training" if training else "in evaluation"
