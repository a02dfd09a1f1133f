"""Trains and evaluates one run, in the current process (``lprime run`` calls it in worker processes)."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from bench import encodings
from bench.encodings import Encoding
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.result import EncodingRecord, LengthScore, Parameters, Result, Timings, first_fault, write_result
from bench.training.evaluate import evaluate, zero_scores
from bench.training.model import Decoder, count_parameters
from bench.training.train import TrainingState, median_step_ms
from tasks import Examples, InputError, Task, source_sha256

from .devices import device_name, package_versions, resolve_device
from .git_commit import current_commit
from .heartbeat import heartbeat
from .run import CHECKPOINT, CHECKPOINT_EVERY_S, FAILURE, WEIGHTS, Run, now
from .run_lock import lock_run, lock_training
from .run_training import Control, Training
from .shared_training import training_run, weights_owner


def run_one(
    run: Run,
    out: Path,
    device: str = "auto",
    checkpoint_every_s: float = CHECKPOINT_EVERY_S,
    report: Callable[[int], None] = lambda step: None,
    should_stop: Callable[[], bool] = lambda: False,
    keep_weights: bool = False,
) -> Result:
    """Train and evaluate one run, resuming from its checkpoint; a finished run returns its stored result.

    A run that shares the training of another encoding loads it, or trains it first: see ``shared_training``.

    Arguments:
        report: called with the step, about twice a second, and before every test batch.
        should_stop: called after every step and between test batches; if it returns True the run saves its state and ends.
        keep_weights: keep the end of the training, as ``weights.safetensors``.

    Raises:
        Stopped: ``should_stop`` returned True; the checkpoint holds the state.
        LockedElsewhere: another process works on this run.
        InputError: the encoding is unknown, the folder cannot be written, or it holds a result of another suite version.
    """
    if result := run.result(out):
        return result

    def make(report: Callable[[int], None]) -> Result:
        control = Control(checkpoint_every_s, report, should_stop)
        return Session(run, out, resolve_device(device), control, keep_weights).train_and_evaluate()

    return finish(run, out, run.steps + run.extra_steps, report, make)


def finish(
    run: Run, out: Path, steps: int, report: Callable[[int], None], make: Callable[[Callable[[int], None]], Result]
) -> Result:
    """Make and store the result of a run, or return what another process has stored.

    Arguments:
        steps: all training steps, those of an extra stage included.
        report: called with the step.
        make: makes the result; takes a function to call with the step, which writes the heartbeat and calls ``report``.

    Raises:
        LockedElsewhere: another process works on this run.
        InputError: the folder cannot be written, or holds a result of another suite version.
    """
    folder = run.folder(out)
    with lock_run(folder):
        if result := run.result(out):  # another process finished it before we got the lock
            return result
        (folder / FAILURE).unlink(missing_ok=True)  # of an earlier attempt
        with heartbeat(folder, steps, report) as report:
            result = make(report)
        write_result(folder, result)
        for name in (CHECKPOINT, f"{CHECKPOINT}.unusable", f"{WEIGHTS}.unusable"):
            (folder / name).unlink(missing_ok=True)
        return result


class Session:
    """Executes one run from its start, its checkpoint or a shared training to its result."""

    def __init__(self, run: Run, out: Path, device: torch.device, control: Control, keep_weights: bool):
        self.run, self.out, self.device, self.control = run, out, device, control
        self.keep_weights = keep_weights
        self.cls = get_encoding(run.encoding)
        self.commit = current_commit()
        self.encoding, self.versions = encoding_record(self.cls), package_versions()  # may fail: before training, not after
        self.training = Training(run, out, device, control)
        self.shared = training_run(run)
        """The run whose training this one shares; often itself."""

    @property
    def trained_as(self) -> str:
        """See ``Result.trained_as``."""
        return "" if self.shared.key == self.run.key else self.shared.encoding

    @property
    def weights(self) -> str:
        """See ``Result.weights``."""
        path = f"{weights_owner(self.run).path}/{WEIGHTS}"
        return path if (self.out / path).exists() else ""

    def train(self) -> None:
        """Train the model, or load what is trained already."""
        training = self.training
        if not self.trained_as:
            training.complete(self.keep_weights)
            return
        with lock_training(training.folder, self.control.stop_if_asked):
            if not (training.has_stage and (training.load(WEIGHTS) or training.load(CHECKPOINT))):
                first, begin = Training(self.shared, self.out, self.device, self.control), time.monotonic()
                first.complete(keep=True)
                training.start += time.monotonic() - begin  # the time belongs to the run that owns the training
                training.continue_from(first)
            if not training.finished:  # the extra stage
                training.train()
            if training.has_stage and self.keep_weights and not (training.folder / WEIGHTS).exists():
                training.keep()

    def before_batch(self) -> None:
        self.control.stop_if_asked()
        self.control.report(self.training.state.step)

    def train_and_evaluate(self) -> Result:
        self.train()
        training, seed = self.training, self.run.recipe_suite.test_seed

        def test(task: Task, test_sets: Mapping[int, Examples]) -> list[LengthScore]:
            return evaluate(training.model, task, test_sets, seed, self.before_batch)

        return tested(
            self.run,
            training.model,
            training.state,
            self.device,
            test,
            training.elapsed,
            encoding=self.encoding,
            versions=self.versions,
            commit=self.commit,
            trained_as=self.trained_as,
            weights=self.weights,
        )


def tested(
    run: Run,
    model: Decoder,
    state: TrainingState,
    device: torch.device,
    test: Callable[[Task, Mapping[int, Examples]], list[LengthScore]],
    elapsed: Callable[[], float],
    **fields: Any,
) -> Result:
    """Test a trained model, and make the result of its run.

    Arguments:
        test: scores at the lengths of some test sets. Not called if the training diverged: then all scores are zero.
        elapsed: seconds spent on the run so far.
        fields: of the result, which tests do not change.
    """
    suite, start = run.recipe_suite, time.monotonic()
    task, test_sets, stage = suite.make_task(run.task), suite.test_sets(run.task), model.encoding.stage
    further = task.further_tests(list(test_sets), run.train_length, suite.test_examples, suite.test_seed)
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
        data_hash=suite.data_hash(run.task),
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
    try:
        record = EncodingRecord(
            name=info.name,
            family=info.family,
            ranking=info.ranking,
            year=info.year,
            title=info.title,
            link=info.link,
            source=info.source,
            lengths=info.lengths,
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
