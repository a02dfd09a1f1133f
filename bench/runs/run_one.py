"""Trains and evaluates one run, in the current process (``lprime run`` calls it in worker processes)."""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from bench import encodings
from bench.encodings import Encoding
from bench.plugins.registry import get_encoding
from bench.plugins.source_hash import source_hash
from bench.result import EncodingRecord, Parameters, Result, Timings, first_fault, write_result
from bench.training.evaluate import evaluate, zero_scores
from bench.training.model import count_parameters
from bench.training.train import median_step_ms
from tasks import InputError, content_hash

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
        run, suite, training = self.run, self.run.suite, self.training
        task, test_sets = suite.make_task(run.task), suite.test_sets(run.task)
        self.train()
        state, stage, length = training.state, training.model.encoding.stage, suite.spec(run.task).train_length
        start = time.monotonic()
        if state.diverged:
            scores = zero_scores(task, test_sets)
        else:
            scores = evaluate(training.model, task, test_sets, suite.test_seed, self.before_batch)
        return Result(
            **run.identity,
            longest_seen=task.longest if stage and stage.longer else length,
            encoding=self.encoding,
            status="diverged" if state.diverged else "done",
            steps=state.step,
            loss=state.loss,
            scores=scores,
            parameters=Parameters(model=count_parameters(training.model), encoding=count_parameters(training.model.encoding)),
            timings=Timings(
                step_ms=round(median_step_ms(state), 3),
                train_s=round(state.train_s, 3),
                evaluate_s=round(time.monotonic() - start, 3),
                total_s=round(training.elapsed(), 3),
                cpu_share=state.cpu_share,
            ),
            data_hash=content_hash(test_sets.values()),
            versions=self.versions,
            device=device_name(self.device),
            threads=torch.get_num_threads(),
            trained_as=self.trained_as,
            weights=self.weights,
            started=state.started,
            finished=now(),
            commit=self.commit,
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
