"""The test of a trained model, and the result of its run."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

from bench.result import LengthScore, Parameters, Result, Timings
from bench.training.evaluate import zero_scores
from bench.training.model import Decoder, count_parameters
from bench.training.train import TrainingState
from tasks import Examples, Task, source_sha256

from .devices import current_commit, device_name, package_versions
from .run import Run, now


def tested(
    run: Run,
    model: Decoder,
    state: TrainingState,
    test: Callable[[Task, Mapping[int, Examples]], list[LengthScore]],
    elapsed: Callable[[], float],
    test_seed: int | None = None,
    **fields: Any,
) -> Result:
    """Test a trained model, and make the result of its run.

    Arguments:
        test: scores at the lengths of some test sets. Not called if the training diverged: then all scores are zero.
        elapsed: seconds spent on the run so far.
        test_seed: seed of the test sets; by default the suite's.
        fields: of the result, which tests do not change.
    """
    suite, start = run.recipe_suite, time.monotonic()
    task, test_sets, stage = suite.make_task(run.task), suite.test_sets(run.task, test_seed), model.encoding.stage
    seed = suite.test_seed if test_seed is None else test_seed
    further = task.further_tests(list(test_sets), run.train_length, suite.test_examples, seed)
    scores, *more = [zero_scores(task, sets) if state.diverged else test(task, sets) for sets in (test_sets, *further.values())]
    return Result(
        **run.identity,
        score_is=run.suite.score,
        **fields,
        versions=package_versions(),
        commit=current_commit(),
        task_sha256=suite.spec(run.task).source_sha256 or source_sha256(type(task)),
        longest_seen=task.longest if stage and stage.longer else run.train_length,
        status="diverged" if state.diverged else "done",
        steps=state.step,
        loss=state.loss,
        scores=scores,
        further=dict(zip(further, more, strict=True)),
        symbols=len(task.vocabulary),
        parameters=Parameters(model=count_parameters(model), encoding=count_parameters(model.encoding)),
        timings=Timings(
            step_ms=round(statistics.median(state.step_ms or [0.0]), 3),
            train_s=round(state.train_s, 3),
            evaluate_s=round(time.monotonic() - start, 3),
            total_s=round(elapsed(), 3),
            cpu_share=state.cpu_share,
        ),
        data_hash=suite.data_hash(run.task, test_seed),
        test_seed=test_seed,
        device=device_name(model.embedding.weight.device),
        threads=torch.get_num_threads(),
        started=state.started,
        finished=now(),
    )
