"""A whole run of code that nobody vouches for: trained by the judge, tested at each length in a sealed process of its own.

It has no checkpoints; if it is interrupted, it starts again.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.encodings import Stage
from bench.result import LengthScore, Result
from bench.runs.run import Run, now
from bench.runs.run_one import finish
from bench.runs.run_training import AtStep
from bench.runs.testing import tested
from bench.runs.worker import RunRequest
from bench.training.evaluate import evaluate
from bench.training.optimizer import AdamW
from bench.training.train import TrainingState, stage_steps, train
from tasks import Examples, InputError, Task

from .judge import SealedModel, revealed_logits
from .process import SealedError, SealedProcess
from .sandbox import SealedCode

SERVED = "bench.sealed.served_model"


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


def run_sealed(run: Run, code: SealedCode, at_step: AtStep = lambda step: None, test_seed: int | None = None) -> Result:
    """Train and test one run. Times include the messages between the processes, so there is no step time.

    Arguments:
        test_seed: seed of the test sets. By default it is drawn now: code that was written earlier cannot hold their answers.

    Raises:
        InputError: the code failed or broke the protocol; there is no sandbox, or it would show the answers.
        Stopped: by ``at_step``.
    """
    start, state = time.monotonic(), TrainingState(started=now())
    seed = secrets.randbits(32) if test_seed is None else test_seed
    if (run.task, run.recipe_suite.spec(run.task).variant) == ("text", "python"):
        raise InputError("text python has no sealed runs: its tests are the source of sympy, which torch needs in the sandbox")
    try:
        with SealedProcess(SERVED, code) as trainer:
            model, recipe = SealedModel(run, trainer, code.encoding), run.recipe
            task = run.recipe_suite.make_task(run.task)
            train(model, AdamW(model, recipe), task, run.train_length, recipe, run.seed, state, lambda at: at_step(at.step))
        state.step_ms = []  # they include the messages
        weights = model.state_dict()

        def test(task: Task, test_sets: Mapping[int, Examples]) -> list[LengthScore]:
            scores: list[LengthScore] = []
            for length, examples in test_sets.items():  # in a process that knows nothing of other tests
                with SealedProcess(SERVED, code) as tester:
                    model = SealedModel(run, tester, code.encoding)
                    model.load_state_dict(weights)
                    model.send_weights()
                    before_batch = partial(at_step, state.step)
                    scores += evaluate(model, task, {length: examples}, seed, before_batch, revealed_logits)
            return scores

        said = {"encoding": code.encoding, "sealed": not code.unsafe}
        return tested(run, model, state, test, lambda: time.monotonic() - start, seed, **said)
    except SealedError as error:
        raise InputError(f"no result of the sealed run: {error}") from None
