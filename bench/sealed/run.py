"""A whole run of code that nobody vouches for: trained by the judge, tested in a new sealed process."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.result import LengthScore, Parameters
from bench.runs.run import Run
from bench.training.evaluate import zero_scores
from bench.training.optimizer import FlatAdamW
from bench.training.train import TrainingState, train

from .audit import Audit
from .evaluate import evaluate_sealed
from .judge import Code, SealedModel


@dataclass(frozen=True)
class SealedRun:
    """What the judge measured."""

    scores: list[LengthScore]
    loss: list[tuple[int, float]]
    steps: int
    status: str
    train_s: float
    evaluate_s: float
    longest_seen: int
    parameters: Parameters
    audit: list[str]
    """Faults that the audit of the gradients found."""

    def outcome(self) -> dict[str, Any]:
        """The fields of a ``Result`` that are the outcome of its run."""
        return {name: getattr(self, name) for name in ("scores", "loss", "steps", "status", "longest_seen", "parameters")}


def run_sealed(run: Run, code: Code, report: Callable[[int], None] = lambda step: None, seed: int | None = None) -> SealedRun:
    """Train and test one run.

    Arguments:
        seed: of the choice of audited steps; by default unpredictable.

    Raises:
        SealedError: the code failed or broke the protocol.
        InputError: there is no sandbox.
    """
    spec, task, recipe = run.suite.spec(run.task), run.suite.make_task(run.task), run.suite.recipe_for(run.task)
    test_sets, state, start = run.suite.test_sets(run.task), TrainingState(), time.monotonic()
    audit = Audit(recipe.steps, np.random.default_rng(seed))
    with SealedModel(run, code) as model:
        optimizer = FlatAdamW(model, recipe)  # type: ignore[arg-type]

        def compute(_model, examples, announced_length, generator):
            loss = model.gradients(_model, examples, announced_length, generator)
            audit.record(state.step, model, examples, announced_length)
            return loss

        train(
            model, optimizer, task, spec.train_length, recipe, run.seed, state,  # type: ignore[arg-type]
            lambda state: report(state.step), compute=compute,
        )  # fmt: skip
        weights, trained = {name: p.detach().clone() for name, p in model.weights.items()}, time.monotonic()
    with SealedModel(run, code) as model:  # knows nothing of the training but its weights
        for name, value in weights.items():
            model.weights[name].data = value
        scores = (
            zero_scores(task, test_sets) if state.diverged else evaluate_sealed(model, task, test_sets, run.suite.test_seed)
        )
        faults = [] if state.diverged else audit.faults(model, len(task.vocabulary))
    stage = model.encoding.stage
    return SealedRun(
        scores=scores,
        loss=state.loss,
        steps=state.step,
        status="diverged" if state.diverged else "done",
        train_s=trained - start,
        evaluate_s=time.monotonic() - trained,
        longest_seen=task.longest if stage and stage.longer else spec.train_length,
        parameters=model.count(),
        audit=faults,
    )
