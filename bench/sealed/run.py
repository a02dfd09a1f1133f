"""A whole run of code that nobody vouches for: trained by the judge, tested in a new sealed process."""

import time

import numpy as np
import torch

from bench.result import EncodingRecord, Result
from bench.runs.devices import current_commit, package_versions
from bench.runs.run import Run, now
from bench.runs.run_one import tested
from bench.runs.run_training import REPORT_EVERY_S, Control
from bench.training.evaluate import evaluate
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, stage_steps, train
from tasks import InputError

from .audit import Audit
from .channel import SealedError
from .judge import SealedModel
from .reveal import Revealed
from .sandbox import Code


def run_sealed(run: Run, code: Code, encoding: EncodingRecord, control: Control = Control()) -> Result:
    """Train and test one run. Times include the messages between the processes, so there is no step time.

    Arguments:
        encoding: what the result says of the encoding.

    Raises:
        InputError: the code failed, broke the protocol or was found to compute something else; or there is no sandbox.
        Stopped: ``control.should_stop`` returned True.
    """
    start, state = time.monotonic(), TrainingState(started=now())
    fields = {"encoding": encoding, "sealed": not code.unsafe, "versions": package_versions(), "commit": current_commit()}
    try:
        with SealedModel(run, code) as model:
            if model.declared.ranking != encoding.ranking:
                raise SealedError(
                    f"the code declares ranking {model.declared.ranking!r}, and its submission {encoding.ranking!r}"
                )
            audit = train_recorded(run, model, state, control)
            state.step_ms = []  # they include the messages
            model.push_weights()
            with SealedModel(run, code) as other:  # knows nothing of the training but its weights
                other.push_weights(model.weights)
                revealed = Revealed(model)

                def before_batch() -> None:
                    control.stop_if_asked()
                    control.report(state.step)

                def test(task, test_sets):
                    return evaluate(other, task, test_sets, run.suite.test_seed, before_batch, revealed.predict)  # type: ignore[arg-type]

                cpu = torch.device("cpu")
                result = tested(run, model, state, cpu, test, lambda: time.monotonic() - start, **fields)  # type: ignore[arg-type]
                faults = [] if state.diverged else revealed.faults() + audit.faults(other)
    except SealedError as error:
        raise InputError(f"no result: {error}") from None
    if faults:
        raise InputError(f"the audit of the sealed run failed: {'; '.join(faults)}")
    return result


def train_recorded(run: Run, model: SealedModel, state: TrainingState, control: Control) -> Audit:
    """Train to the end; returns the steps to audit."""
    task, recipe, said = run.recipe_suite.make_task(run.task), run.recipe, 0.0
    audit = Audit(recipe.steps, stage_steps(recipe, model.encoding.stage), np.random.default_rng())

    def compute(_model, examples, announced_length, generator):
        loss = model.gradients(examples, announced_length, generator)
        audit.record(state.step, model, examples, announced_length)
        return loss

    def after_step(state: TrainingState) -> None:
        nonlocal said
        control.stop_if_asked()
        if time.monotonic() > said + REPORT_EVERY_S:
            said = time.monotonic()
            control.report(state.step)

    train(model, AdamW(model, recipe), task, run.train_length, recipe, run.seed, state, after_step, compute=compute)  # type: ignore[arg-type]
    return audit
