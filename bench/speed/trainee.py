"""Our training and evaluation as in a run, one step at a time."""

from collections.abc import Callable

import torch

import tasks
from bench.runs.run import Run
from bench.runs.run_training import build_model
from bench.suites.suite import Suite
from bench.training.batches import Batch, few_shapes_batch
from bench.training.evaluate import evaluate
from bench.training.model import count_parameters
from bench.training.optimizer import FlatAdamW
from bench.training.train import TrainingState, forward_backward, graphed_step, queue_update, seeded_generator, train
from tasks import Examples

CPU = torch.device("cpu")


class Trainee:
    """One encoding's model on one task of a suite, ready to train.

    Arguments:
        graphs: record steps as CUDA graphs, on a GPU.
    """

    def __init__(self, suite: Suite, task: str, encoding: str, device: torch.device = CPU, graphs: bool = True):
        self.suite, self.task = suite, suite.make_task(task)
        self.recipe, self.train_length = suite.recipe_for(task), suite.spec(task).train_length
        self.model = build_model(Run(suite, task, encoding, 0)).to(device)
        self.device, self.graphs = device, graphed_step(self.model) if graphs and device.type == "cuda" else None
        self.parameters = count_parameters(self.model)
        self.optimizer = FlatAdamW(self.model, self.recipe)
        self.model.train()

    def arrange(self, examples: Examples) -> Examples | Batch:
        """The input of ``step``: what the training loop makes of examples while a GPU computes the step before."""
        if not (self.graphs and self.graphs.usable):
            return examples
        width, answer = self.task.tokens(self.train_length), self.task.widths(self.train_length)[1] + 1
        return few_shapes_batch(examples, width, answer, pinned=True)

    def step(self, given: Examples | Batch, announced_length: int | None = None) -> float:
        """One step of ``bench.training.train.train``, given its examples; returns the loss.

        Arguments:
            given: examples, or the batch that ``arrange`` made of them.
            announced_length: tokens announced to the encoding; by default those of length L.
        """
        announced_length = announced_length or self.task.tokens(self.train_length)
        given = self.arrange(given) if isinstance(given, Examples) else given
        if isinstance(given, Batch):
            assert self.graphs is not None
            loss = (self.graphs if self.graphs.usable else self.graphs.plain_step)(given, announced_length)
        else:
            self.optimizer.zero_grad()
            loss = forward_backward(self.model, given, announced_length, seeded_generator("train", 0, 0, device=self.device))
        value, skipped = queue_update(self.optimizer, loss, self.recipe.clip_norm).tolist()
        if skipped:
            raise ArithmeticError(f"the loss is {value}, and it or the gradient is infinite or NaN")
        return value

    def loop(self, steps: int, after_step: Callable[[TrainingState], None] = lambda state: None) -> None:
        """Run the real training loop, drawing of examples included."""
        recipe = self.recipe.model_copy(update={"steps": steps})
        train(self.model, self.optimizer, self.task, self.train_length, recipe, 0, TrainingState(), after_step)

    def exact_match(self, examples: Examples) -> float:
        """Share of exact matches on examples of one length."""
        (score,) = evaluate(self.model, self.task, {int(examples.lengths[0]): examples}, self.suite.test_seed)
        return score.exact


def training_batch(suite: Suite, task: str, size: int, step: int) -> Examples:
    """The examples of one training step of seed 0."""
    return tasks.train_batch(suite.make_task(task), suite.spec(task).train_length, size, 0, step)
