"""A trained run that probes examine: its weights, its held-out examples, and the context in which its model was tested."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

import tasks
from bench.runs.run import Run
from bench.runs.run_training import trained
from bench.training.evaluate import announced_length
from bench.training.model import Decoder
from bench.training.train import seeded_generator
from tasks import Examples
from tasks.base import stream

MOST_LENGTHS = 6


@dataclass(frozen=True)
class Subject:
    """A run and its trained model."""

    run: Run
    model: Decoder
    out: Path
    """Folder of the runs."""

    @cached_property
    def task(self) -> tasks.Task:
        return self.run.recipe_suite.make_task(self.run.task)

    @property
    def past(self) -> int:
        """A length past L: 2 L, or the longest test length."""
        return min(2 * self.run.train_length, self.task.longest)

    @property
    def lengths(self) -> list[int]:
        """At most six of the test lengths: L, the longest, and some between them, evenly spaced in log l; and one below L."""
        tested = np.array(self.run.recipe_suite.test_lengths(self.run.task))
        wanted = np.geomspace(self.run.train_length, tested[-1], MOST_LENGTHS - 1)
        chosen = {int(tested[np.abs(np.log(tested / length)).argmin()]) for length in wanted}
        below = tested[tested < self.run.train_length]
        return sorted(chosen | {int(n) for n in below[-1:]})

    def examples(self, length: int, count: int) -> Examples:
        """Held-out examples of one length, the same for all runs of the suite, from a stream that nothing else uses."""
        return self.task.held_out(length, count, stream(self.task, f"probe_{length}", self.run.suite.test_seed))

    def context(self, length: int) -> tuple[int, torch.Generator]:
        """Announced length, and source of randomness of random encodings, of examples of one length."""
        announced = announced_length(self.model, self.task, length)
        return announced, seeded_generator("probe", self.run.suite.test_seed, length, device=torch.device("cpu"))


def as_tokens(examples: Examples) -> Int[Tensor, "B T"]:
    return torch.from_numpy(np.ascontiguousarray(examples.tokens))


def predicting(examples: Examples) -> Bool[Tensor, "B T"]:
    """True where the next token is part of the answer."""
    return torch.nn.functional.pad(torch.from_numpy(examples.targets)[:, 1:], (0, 1))


def trained_subject(run: Run, out: Path) -> Subject:
    """The trained model of a run, on the CPU; it is trained first if its weights are not stored, or damaged.

    Raises:
        InputError: the weights are of another version of suite or encoding.
    """
    training = trained(run, out, "auto", keep_weights=True, from_anywhere=True)
    return Subject(run, training.model.cpu().eval(), out)
