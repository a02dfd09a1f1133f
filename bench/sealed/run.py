"""A whole run of code that nobody vouches for: trained by the judge, tested in a second sealed process."""

import time
from collections.abc import Mapping
from functools import partial

import torch

from bench.result import LengthScore, Result
from bench.runs.devices import current_commit, package_versions
from bench.runs.run import Run, now
from bench.runs.run_one import tested
from bench.runs.run_training import AtStep
from bench.training.evaluate import evaluate
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, train
from tasks import Examples, InputError, Task

from .judge import SealedModel, compared_logits
from .process import SealedError
from .sandbox import SealedCode


def run_sealed(run: Run, code: SealedCode, at_step: AtStep = lambda step: None) -> Result:
    """Train and test one run. Times include the messages between the processes, so there is no step time.

    Raises:
        InputError: the code failed, broke the protocol or was found to compute something else; or there is no sandbox.
        Stopped: by ``at_step``.
    """
    start, state, said = time.monotonic(), TrainingState(started=now()), code.encoding
    fields = {"encoding": said, "sealed": not code.unsafe, "versions": package_versions(), "commit": current_commit()}

    def after_step(state: TrainingState) -> None:
        at_step(state.step)

    # The second process knows nothing of the training but weights.
    try:
        with SealedModel(run, code) as model, SealedModel(run, code) as other:
            if (model.declared.name, model.declared.ranking) != (said.name, said.ranking):
                found = f"{model.declared.name!r:.80}, ranking {model.declared.ranking!r}"
                raise SealedError(f"the code declares {found}, and its submission {said.name!r}, ranking {said.ranking!r}")
            task, recipe = run.recipe_suite.make_task(run.task), run.recipe
            optimizer, compute = AdamW(model, recipe), SealedModel.gradients  # type: ignore[arg-type]
            train(model, optimizer, task, run.train_length, recipe, run.seed, state, after_step, compute=compute)  # type: ignore[arg-type]
            state.step_ms = []  # they include the messages
            model.push_weights()
            other.push_weights(model.weights)
            model.in_stage = other.in_stage = model.encoding.stage is not None

            def test(task: Task, test_sets: Mapping[int, Examples]) -> list[LengthScore]:
                predict, before_batch = partial(compared_logits, model), partial(at_step, state.step)
                return evaluate(other, task, test_sets, run.suite.test_seed, before_batch, predict)  # type: ignore[arg-type]

            return tested(run, model, state, torch.device("cpu"), test, lambda: time.monotonic() - start, **fields)  # type: ignore[arg-type]
    except SealedError as error:
        raise InputError(f"no result of the sealed run: {error}") from None
