"""Trains and evaluates one run, in the current process (``lprime run`` calls it in worker processes)."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from bench import encodings
from bench.encodings import Encoding
from bench.files import render, write_atomic
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.result import EncodingRecord, LengthScore, Parameters, Result, Timings, first_fault, write_result
from bench.training.evaluate import evaluate, zero_scores
from bench.training.model import Decoder, count_parameters
from bench.training.train import TrainingState, median_step_ms
from tasks import Examples, InputError, Task, source_sha256

from .devices import current_commit, device_name, package_versions, resolve_device
from .run import CHECKPOINT, CHECKPOINT_EVERY_S, FAILURE, Run, now
from .run_lock import heartbeat, lock_run
from .run_training import AtStep, trained
from .shared_training import weights_file


def run_one(
    run: Run,
    out: Path,
    device: str = "auto",
    checkpoint_every_s: float = CHECKPOINT_EVERY_S,
    should_stop: Callable[[], bool] = lambda: False,
    keep_weights: bool = False,
) -> Result:
    """Train and evaluate one run, resuming from its checkpoint; a finished run returns its stored result.

    A run that shares the training of another encoding loads it, or trains it first: see ``shared_training``.

    Arguments:
        should_stop: called after every step and between test batches; if it returns True the run saves its state and ends.
        keep_weights: keep the end of the training, as ``weights.safetensors``.

    Raises:
        Stopped: ``should_stop`` returned True; the checkpoint holds the state.
        LockedElsewhere: another process works on this run.
        InputError: the encoding is unknown, the folder cannot be written, or it holds a result of another suite version.
    """
    if result := run.result(out):
        return result

    def make(at_step: AtStep) -> Result:
        place = resolve_device(device)
        # What may fail comes before the training.
        known: dict[str, Any] = {"encoding": encoding_record(get_encoding(run.encoding)), "versions": package_versions()}
        training = trained(run, out, place, keep_weights, at_step, checkpoint_every_s)
        weights, before_batch = weights_file(run, out), partial(at_step, training.state.step)

        def test(task: Task, test_sets: Mapping[int, Examples]) -> list[LengthScore]:
            return evaluate(training.model, task, test_sets, run.recipe_suite.test_seed, before_batch)

        result = tested(
            run,
            training.model,
            training.state,
            place,
            test,
            training.elapsed,
            **known,
            commit=current_commit(),
            trained_as=training.trained_as,
            weights=weights.relative_to(out).as_posix() if weights.exists() else "",
        )
        if keep_weights and weights.parent == run.folder(out):
            write_atomic(weights.with_name("README.md"), render("templates/weights.md.j2", result=result))
        return result

    return finish(run, out, run.steps + run.extra_steps, should_stop, make)


def finish(run: Run, out: Path, steps: int, should_stop: Callable[[], bool], make: Callable[[AtStep], Result]) -> Result:
    """Make and store the result of a run, or return what another process has stored.

    Arguments:
        steps: all training steps, those of an extra stage included.
        make: makes the result; takes a function to call with the step, see ``heartbeat``.

    Raises:
        Stopped: ``should_stop`` returned True.
        LockedElsewhere: another process works on this run.
        InputError: the folder cannot be written, or holds a result of another suite version.
    """
    folder = run.folder(out)
    with lock_run(folder):
        if result := run.result(out):  # another process finished it before we got the lock
            return result
        (folder / FAILURE).unlink(missing_ok=True)  # of an earlier attempt
        with heartbeat(folder, steps, should_stop) as at_step:
            result = make(at_step)
        write_result(folder, result)
        (folder / CHECKPOINT).unlink(missing_ok=True)
        return result


def tested(
    run: Run,
    model: Decoder,
    state: TrainingState,
    device: torch.device,
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
        task_sha256=source_sha256(type(task)),
        longest_seen=task.longest if stage and stage.longer else run.train_length,
        status="diverged" if state.diverged else "done",
        steps=state.step,
        loss=state.loss,
        scores=scores,
        further=dict(zip(further, more, strict=True)),
        symbols=len(task.vocabulary),
        parameters=Parameters(model=count_parameters(model), encoding=count_parameters(model.encoding)),
        timings=Timings(
            step_ms=round(median_step_ms(state), 3),
            train_s=round(state.train_s, 3),
            evaluate_s=round(time.monotonic() - start, 3),
            total_s=round(elapsed(), 3),
            cpu_share=state.cpu_share,
        ),
        data_hash=suite.data_hash(run.task, test_seed),
        test_seed=test_seed,
        device=device_name(device),
        threads=torch.get_num_threads(),
        started=state.started,
        finished=now(),
    )


def encoding_record(cls: type[Encoding]) -> EncodingRecord:
    """What a result says of its encoding.

    Raises:
        InputError: a field of its ``info`` has a wrong type, or a setting has a value that JSON does not have.
    """
    info = cls.info
    copied = ("name", "family", "ranking", "year", "title", "link", "source", "lengths")
    try:
        record = EncodingRecord(
            **{field: getattr(info, field) for field in copied},
            stage_share=cls.stage.share if cls.stage else None,
            settings=encodings.settings(cls),
            source_sha256=source_hash(cls),
        )
        record.model_dump_json()
    except ValidationError as error:
        raise InputError(f"info of {info.name}: {first_fault(error)}") from None
    except PydanticSerializationError as error:
        raise InputError(f"settings of {info.name}: {error}; expected numbers, True, False or words") from None
    return record
