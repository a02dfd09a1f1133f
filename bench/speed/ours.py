"""Our own side: every call of ``make speed`` into training and evaluation, in one place."""

import math
import time
from collections.abc import Mapping
from itertools import pairwise

import torch

import tasks
from bench.batches import as_batch, fixed_batch
from bench.evaluate import evaluate
from bench.optimizer import FlatAdamW
from bench.runs import Run
from bench.suite import Suite
from bench.train import RECTANGLES, State, backward, generator, graphed, train
from bench.work import build_model, parameters
from tasks import Examples

CPU = torch.device("cpu")


class Trainee:
    """One encoding's model on one task of a suite, ready to train.

    Arguments:
        graphs: record steps, on a GPU.
    """

    def __init__(self, suite: Suite, task: str, encoding: str, device: torch.device = CPU, graphs: bool = True):
        self.suite, self.task = suite, suite.make_task(task)
        self.recipe, self.train_length = suite.recipe_for(task), suite.spec(task).train_length
        self.model = build_model(Run(suite, task, encoding, 0)).to(device)
        self.device, self.graphs = device, graphed(self.model) if graphs and device.type == "cuda" else None
        self.parameters = parameters(self.model)
        self.optimizer = FlatAdamW(self.model, self.recipe)
        self.model.train()

    def step(self, examples: Examples, nominal: int | None = None) -> float:
        """What ``bench.train.train`` does in one step once it has its examples; returns the loss.

        Arguments:
            nominal: tokens announced; those of L by default.
        """
        nominal = nominal or self.task.tokens(self.train_length)
        self.optimizer.zero_grad()
        if self.graphs and self.graphs.trusted:
            loss = self.graphs(fixed_batch(examples, nominal, self.task.widths(self.train_length)[1] + 1), nominal)
        else:
            loss = backward(self.model, examples, nominal, generator("train", 0, 0, device=self.device))
        norm = self.optimizer.clip(self.recipe.clip_norm)
        value = loss.item()
        if not (math.isfinite(value) and math.isfinite(norm.item())):
            raise ArithmeticError(f"loss {value}, norm of the gradient {norm.item()}")
        self.optimizer.step()
        return value

    def loop(self, steps: int) -> list[float]:
        """Wall seconds of each step of the real loop after the first, drawing of examples included."""
        ends: list[float] = []
        recipe = self.recipe.model_copy(update={"steps": steps})
        train(
            self.model, self.optimizer, self.task, self.train_length, recipe, 0, State(),
            lambda state: ends.append(time.perf_counter()),
        )  # fmt: skip
        return [after - before for before, after in pairwise(ends)]

    def exact_match(self, test_sets: Mapping[int, Examples]) -> list[float]:
        """By length."""
        return [score.exact for score in evaluate(self.model, self.task, test_sets, self.suite.test_seed)]


def lay_out(examples: Examples) -> None:
    """What turns examples into tensors, a part of every step."""
    as_batch(examples, RECTANGLES["cpu"])


def training_batch(suite: Suite, task: str, size: int, step: int) -> Examples:
    """The examples of one training step of seed 0."""
    return tasks.train_batch(suite.make_task(task), suite.spec(task).train_length, size, 0, step)
