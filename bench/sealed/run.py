"""A whole run of code that nobody vouches for: trained by the judge, tested at each length in a sealed process of its own.

It has no checkpoints; if it is interrupted, it starts again.
"""

import secrets
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from bench.encodings import Stage
from bench.encodings.nope import NoPE
from bench.plugins.record import encoding_record
from bench.result import LengthScore, Result
from bench.runs.run import Run, now
from bench.runs.run_one import finish
from bench.runs.run_training import AtStep
from bench.runs.testing import tested
from bench.runs.worker import RunRequest
from bench.training.evaluate import evaluate
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, forward_backward, stage_steps, target_logits, train
from tasks import Examples, InputError, Task

from .judge import SealedModel, revealed_logits
from .process import SealedError, SealedProcess
from .sandbox import SealedCode

SERVED = "bench.sealed.served_model"
ROUNDS = 11
"""Steps that are timed beside NoPE's."""


@dataclass(frozen=True)
class SealedRequest(RunRequest):
    """A request to a worker, which stores the result like results of other runs."""

    code: SealedCode = field(kw_only=True)

    @classmethod
    def of_run(cls, run: Run, code: SealedCode) -> "SealedRequest":
        return cls(run.suite.model_dump_json(), *run.key, code=code)

    def execute(self, out: Path, device: str, checkpoint_every_s: float, should_stop: Callable[[], bool]) -> Result:
        """See ``RunRequest.execute``."""
        run, share = self.run(), self.code.encoding.stage_share
        steps = run.steps + stage_steps(run.recipe, Stage(share) if share else None)
        return finish(run, out, steps, should_stop, partial(run_sealed, run, self.code))


def run_sealed(
    run: Run, code: SealedCode, at_step: AtStep = lambda step: None, secret: int | None = None, open_seeds: bool = False
) -> Result:
    """Train and test one run. Times include the messages between the processes, so there is no step time but relative to NoPE.

    Arguments:
        secret: seed of the test sets, on which initial weights depend too. By default it is drawn now: code that was written
            earlier can hold no answers, nor train the same model by itself. A result's ``test_seed`` repeats its run.
        open_seeds: test sets and initial weights are those of any other run.

    Raises:
        InputError: the code failed or broke the protocol; there is no sandbox, or it would show the answers.
        Stopped: by ``at_step``.
    """
    start, state = time.monotonic(), TrainingState(started=now())
    secret = None if open_seeds else secrets.randbits(63) if secret is None else secret
    seed = run.recipe_suite.test_seed if secret is None else secret
    if (run.task, run.recipe_suite.spec(run.task).variant) == ("text", "python"):
        raise InputError("text python has no sealed runs: its tests are the source of sympy, which torch needs in the sandbox")
    try:
        with SealedProcess(SERVED, code) as trainer:
            model, recipe = SealedModel(run, trainer, code.encoding, secret), run.recipe
            task = run.recipe_suite.make_task(run.task)
            train(model, AdamW(model, recipe), task, run.train_length, recipe, run.seed, state, lambda at: at_step(at.step))
            costs = costs_beside_nope(run, model) if model.sees_content else {}
        state.step_ms = []  # they include the messages
        weights, predict = model.state_dict(), revealed_logits if model.sees_content else target_logits

        def test(task: Task, test_sets: Mapping[int, Examples]) -> list[LengthScore]:
            scores: list[LengthScore] = []
            for length, examples in test_sets.items():  # in a process that knows nothing of other tests
                with SealedProcess(SERVED, code) as tester:
                    tested_model = SealedModel(run, tester, code.encoding, secret)
                    if tested_model.form != model.form:
                        raise SealedError("says of itself in a test other than in training")
                    tested_model.load_state_dict(weights)
                    tested_model.send_weights()
                    # Not by the secret seed: code gets seeds of this one, and could search for what they derive from.
                    known, before_batch = run.recipe_suite.test_seed, partial(at_step, state.step)
                    scores += evaluate(tested_model, task, {length: examples}, known, before_batch, predict)
            return scores

        said = {"encoding": code.encoding, "sealed": not code.unsafe}
        said |= {"sees_content": model.sees_content, **costs}
        return tested(run, model, state, test, lambda: time.monotonic() - start, seed, **said)
    except SealedError as error:
        raise InputError(f"no result of the sealed run: {error}") from None


def costs_beside_nope(run: Run, model: SealedModel) -> dict[str, float]:
    """Time of a training step at L and operations of a forward pass, relative to NoPE in a process of the same kind."""
    task, count = run.recipe_suite.make_task(run.task), run.recipe.batch
    examples, generator = task.sample(run.train_length, count, np.random.default_rng(0)), torch.Generator()
    nope = replace(model.process.code, reference="nope")
    with SealedProcess(SERVED, nope) as process:
        models = model, SealedModel(run, process, encoding_record(NoPE), None, tables=False)
        times: tuple[list[float], ...] = ([], [])
        for _ in range(ROUNDS):
            for one, taken in zip(models, times, strict=True):
                start = time.perf_counter()
                forward_backward(one, examples, task.tokens(run.train_length), generator)
                taken.append(time.perf_counter() - start)
    step, plain = map(statistics.median, times)
    flops, plain_flops = (one.encoding.declared.flops for one in models)
    return {"step_ratio": round(step / plain, 3), "flops_ratio": round(flops / plain_flops, 3)}
