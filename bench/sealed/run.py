"""A whole run of code that nobody vouches for: trained by the judge, tested in a new sealed process.

Both processes are then asked the same: what one of them remembers of the training or of other tests would show.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.result import LengthScore, Parameters
from bench.runs.run import Run
from bench.training.evaluate import zero_scores
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, stage_steps, train

from .audit import Audit
from .evaluate import evaluate_sealed, largest_difference
from .judge import SealedModel
from .process import Code

SAME = 1e-3
"""Most by which logits of two processes may differ; honest ones are equal."""


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
    """Faults: wrong gradients, predictions that depend on the answer, or on what the process computed before."""

    def outcome(self) -> dict[str, Any]:
        """The fields of a ``Result`` that are the outcome of its run."""
        return {name: getattr(self, name) for name in ("scores", "loss", "steps", "status", "longest_seen", "parameters")}


def run_sealed(run: Run, code: Code, report: Callable[[int], None] = lambda step: None) -> SealedRun:
    """Train and test one run.

    Arguments:
        report: called with the step after every step and before every test batch; may raise to stop.

    Raises:
        SealedError: the code failed or broke the protocol.
        InputError: there is no sandbox.
    """
    spec, task, recipe = run.suite.spec(run.task), run.suite.make_task(run.task), run.suite.recipe_for(run.task)
    test_sets, state, start = run.suite.test_sets(run.task), TrainingState(), time.monotonic()
    with SealedModel(run, code) as model:
        audit = Audit(recipe.steps, stage_steps(recipe, model.encoding.stage), np.random.default_rng())
        optimizer = AdamW(model, recipe)  # type: ignore[arg-type]

        def compute(_model, examples, announced_length, generator):
            loss = model.gradients(examples, announced_length, generator)
            audit.record(state.step, model, examples, announced_length)
            return loss

        train(
            model, optimizer, task, spec.train_length, recipe, run.seed, state,  # type: ignore[arg-type]
            lambda state: report(state.step), compute=compute,
        )  # fmt: skip
        trained = time.monotonic()
        scores, faults = zero_scores(task, test_sets), list[str]()
        if not state.diverged:
            with SealedModel(run, code) as tested:  # knows nothing of the training but its weights
                for name, value in model.weights.items():
                    tested.weights[name].data = value.detach().clone()
                scores, faults = evaluate_sealed(tested, task, test_sets, run.suite.test_seed, lambda: report(state.step))
                faults += differences(model, tested)
                faults += audit.faults(tested, len(task.vocabulary))
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


def differences(trained: SealedModel, tested: SealedModel) -> list[str]:
    """Faults if the process that has trained, given the same weights, answers otherwise than the one that was tested."""
    if trained.initial.keys() != tested.initial.keys() or any(
        not np.array_equal(value, tested.initial[name]) for name, value in trained.initial.items()
    ):
        return ["two processes start with other parameters of the encoding"]
    trained.push_weights()
    change = max(
        largest_difference(trained.ask(arrays, values, tuple(logits.shape)), logits) for arrays, values, logits in tested.kept
    )
    if change > SAME:
        return [f"the process that has trained gives other logits than a new one, by up to {change:.3g}, for the same weights"]
    return []
